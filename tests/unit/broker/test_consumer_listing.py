"""The management API's list of consumers: typed when it is one, "no data" when it is anything else (B57)."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from airflow_provider_rmq.broker.consumer_listing import list_consumers
from airflow_provider_rmq.broker.management import NoManagementUrl
from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.compat import ConnectionRecord
from airflow_provider_rmq.errors import ManagementUnavailable

PASSWORD = "very-secret"


def settings(url, **extra):
    record = ConnectionRecord(
        conn_id="c", host="h", login="u", password=PASSWORD, schema="a/b", extra={"management_url": url, **extra}
    )
    return ConnectionSettings.from_record(record)


@asynccontextmanager
async def serving(answer, *, answers=True):
    """A server that answers every request with these bytes, or not at all; yields its URL and what it was asked."""
    requests, over, handlers = [], asyncio.Event(), []

    async def handle(reader, writer):
        handlers.append(asyncio.current_task())
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        if not answers:
            await over.wait()
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests
        over.set()
        await asyncio.wait(handlers)


def response(body, status="200 OK", *headers):
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers])
    return head.encode() + b"\r\n\r\n" + body


def consumer(queue, tag):
    return {"queue": {"name": queue, "vhost": "a/b"}, "consumer_tag": tag, "ack_required": True}


async def test_tags_and_counts_by_queue():
    listed = [consumer("q1", "t1"), consumer("q1", "foreign"), consumer("q2", "t2")]
    async with serving(response(json.dumps(listed).encode())) as (url, requests):
        found = await list_consumers(settings(url))

    assert found.tags == {"t1", "foreign", "t2"}
    assert (found.count(["q1", "q1"]), found.count(["q1", "q2", "q3"])) == (2, 3)
    assert requests[0].startswith(b"GET /api/consumers/a%2Fb ")


async def test_without_a_management_url_that_is_told_apart():
    with pytest.raises(NoManagementUrl):
        await list_consumers(settings(None))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (response(b"slow", "504 Gateway Timeout"), "HTTP 504"),
        (response(b'[{"queue": {"na'), "no JSON"),
        (response(b"<html>Log in</html>", "200 OK", "Content-Type: text/html"), "no JSON"),
        (response(b"", "302 Found", "Location: http://elsewhere.invalid/"), "redirects are not followed"),
        (response(b"", "401 Unauthorized"), "tag management"),
        (response(b'{"error": "x"}'), "no list of consumers"),
        (response(b"[1]"), "no consumer"),
        (response(b'[{"queue": {}, "consumer_tag": 5}]'), "no consumer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n[", "peer closed"),
        (b"nonsense\r\n\r\n", "RemoteProtocolError"),
        (b"", "disconnected"),
    ],
)
async def test_whatever_is_no_list_is_no_data_and_tells_no_password(answer, reason):
    """B57."""
    async with serving(answer) as (url, _):
        with pytest.raises(ManagementUnavailable, match=reason) as caught:
            await list_consumers(settings(url))

    assert PASSWORD not in str(caught.value)


async def test_an_answer_that_takes_too_long_is_no_data():
    """B57."""
    async with serving(response(b"[]"), answers=False) as (url, _):
        with pytest.raises(ManagementUnavailable, match=r"no answer within 0\.2 s"):
            await list_consumers(settings(url, rpc_timeout=0.2))


async def test_five_thousand_queues_are_read():
    """B57."""
    listed = [consumer(f"queue-{number}", f"tag-{number}") for number in range(5000)]
    async with serving(response(json.dumps(listed).encode())) as (url, _):
        found = await list_consumers(settings(url))

    assert len(found.tags) == 5000
