"""The management API's answers, good and bad (B57): a bad one is no verdict, and no error tells the login."""

import asyncio
import json
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import pytest

from airflow_provider_rmq.broker import management
from airflow_provider_rmq.broker.management import ListedQueue, ManagementApi, NoManagementUrl
from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.broker.topology import Binding
from airflow_provider_rmq.compat import ConnectionRecord
from airflow_provider_rmq.errors import ManagementUnavailable

LOGIN, PASSWORD = "watcher", "s3cret-word"


class Api:
    """A server that answers every request with the same bytes and keeps what it was asked."""

    def __init__(self, raw, *, hang=False, drip=False):
        self.raw, self.hang, self.drip, self.asked, self.port = raw, hang, drip, [], 0

    async def answer(self, reader, writer):
        try:
            self.asked.append((await reader.read(65_536)).decode(errors="replace"))
            writer.write(self.raw)
            await writer.drain()
            if self.hang:
                await reader.read()
            while self.drip:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)
        except ConnectionError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(raw, **ways):
    api = Api(raw, **ways)
    server = await asyncio.start_server(api.answer, "127.0.0.1", 0)
    api.port = server.sockets[0].getsockname()[1]
    async with server:
        yield api


def http(body, status="200 OK", **headers):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Length: {len(raw)}",
        *(f"{name}: {text}" for name, text in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + raw


def settings(url, vhost="v", **changes):
    record = ConnectionRecord(
        conn_id="c", login=LOGIN, password=PASSWORD, schema=vhost, extra={"management_url": url, "rpc_timeout": 5}
    )
    return replace(ConnectionSettings.from_record(record), **changes)


def api_for(found):
    async def look_up(conn_id):
        if isinstance(found, Exception):
            raise found
        return found

    return ManagementApi(look_up)


async def failure_of(api, **changes):
    with pytest.raises(ManagementUnavailable) as caught:
        await api_for(settings(f"http://127.0.0.1:{api.port}", **changes)).queue_bindings("c", "q")
    told = str(caught.value)
    assert PASSWORD not in told
    assert PASSWORD not in repr(caught.value.__cause__)
    return told


async def test_bindings_come_typed_and_the_names_are_encoded_once():
    listed = [
        {"source": "", "routing_key": "q", "arguments": {}},
        {"source": "e", "routing_key": "a.b", "arguments": {"x": 1}},
    ]
    async with serving(http(listed)) as api:
        found = await api_for(settings(f"http://127.0.0.1:{api.port}/", vhost="a/b ü")).queue_bindings("c", "q/1 %")

    assert found == {Binding("", "q"), Binding("e", "a.b", {"x": 1})}
    assert api.asked[0].startswith("GET /api/queues/a%2Fb%20%C3%BC/q%2F1%20%25/bindings HTTP/1.1")
    assert "authorization: basic" in api.asked[0].lower()


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ("401 Unauthorized", "tag management"),
        ("403 Forbidden", "tag management"),
        ("404 Not Found", "management_url, vhost or queue"),
        ("500 Internal Server Error", "HTTP 500"),
        ("504 Gateway Timeout", "HTTP 504"),
    ],
)
async def test_a_refusal_is_named_with_what_to_do(status, word):
    async with serving(http({"error": "no"}, status)) as api:
        assert word in await failure_of(api)


async def test_a_redirect_is_not_followed_so_the_login_stays_here():
    async with serving(http([])) as elsewhere:
        where = {"Location": f"http://127.0.0.1:{elsewhere.port}/"}
        async with serving(http(b"", "302 Found", **where)) as api:
            assert "redirects are not followed" in await failure_of(api)

    assert elsewhere.asked == []


@pytest.mark.parametrize(
    "body",
    [
        b'[{"source": "e", "rout',
        b"<html><form>Login</form></html>",
        b"",
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
async def test_what_is_no_json_is_no_answer(body):
    async with serving(http(body)) as api:
        assert "no JSON" in await failure_of(api)


@pytest.mark.parametrize("body", [{"error": "x"}, [1], [{"source": "e"}], [{"source": 1, "routing_key": "a"}], None])
async def test_json_of_another_shape_is_no_answer(body):
    async with serving(http(body)) as api:
        assert "c: the management API" in await failure_of(api)


async def test_an_answer_that_breaks_off_is_no_answer():
    async with serving(http([{"source": "e", "routing_key": "a"}])[:-5]) as api:
        assert "RemoteProtocolError" in await failure_of(api)


@pytest.mark.parametrize("raw", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n["])
async def test_an_answer_that_does_not_come_ends_within_the_bound(raw):
    begun = time.monotonic()
    async with serving(raw, hang=True) as api:
        told = await failure_of(api, rpc_timeout=0.2)

    assert "no answer within 0.2 s" in told or "Timeout" in told
    assert time.monotonic() - begun < 30


async def test_an_answer_that_comes_in_drops_ends_within_the_bound():
    async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", drip=True) as api:
        assert "no answer within 0.3 s" in await failure_of(api, rpc_timeout=0.3)


async def test_an_answer_without_end_is_cut_off(monkeypatch):
    monkeypatch.setattr(management, "MAX_ANSWER_BYTES", 1000)
    async with serving(http(b" " * 5000)) as api:
        assert "longer than 1000 bytes" in await failure_of(api)


async def test_no_compressed_answer_is_asked_for_and_none_is_inflated():
    async with serving(http(b"\x1f\x8b" + bytes(40), **{"Content-Encoding": "gzip"})) as api:
        await failure_of(api)

    assert "accept-encoding: identity" in api.asked[0].lower()


async def test_the_environment_sends_it_nowhere_else(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    async with serving(http([])) as api:
        assert await api_for(settings(f"http://127.0.0.1:{api.port}")).queue_bindings("c", "q") == frozenset()


async def test_a_connection_without_the_url_is_told_apart():
    with pytest.raises(NoManagementUrl, match="c has no management_url"):
        await api_for(settings(None)).queue_bindings("c", "q")


async def test_a_connection_without_login_is_not_asked_as_guest():
    record = ConnectionRecord(conn_id="c", extra={"management_url": "http://127.0.0.1:1"})

    with pytest.raises(ManagementUnavailable, match="no login and password"):
        await api_for(ConnectionSettings.from_record(record)).queue_bindings("c", "q")


@pytest.mark.parametrize(
    "url", ["ftp://host", "host:15672", "http://", f"http://{LOGIN}:{PASSWORD}@[bad", f"http://{LOGIN}:{PASSWORD}@h:x"]
)
async def test_a_url_that_is_none_is_named_without_its_login(url):
    with pytest.raises(ManagementUnavailable) as caught:
        await api_for(settings(url)).queue_bindings("c", "q")

    assert PASSWORD not in str(caught.value)


async def test_a_login_within_the_url_shows_in_no_error():
    async with serving(http(b"", "404 Not Found")) as api:
        management_api = api_for(settings(f"http://{LOGIN}:{PASSWORD}@127.0.0.1:{api.port}"))
        with pytest.raises(ManagementUnavailable) as caught:
            await management_api.queue_bindings("c", "q")

    assert PASSWORD not in str(caught.value)


async def test_a_connection_that_cannot_be_read_is_no_answer():
    with pytest.raises(ManagementUnavailable, match="c cannot be read: KeyError"):
        await api_for(KeyError("c")).queue_bindings("c", "q")


async def test_nobody_listens():
    with pytest.raises(ManagementUnavailable, match="ConnectError"):
        await api_for(settings("http://127.0.0.1:1")).queue_bindings("c", "q")


async def test_queues_come_by_name_with_what_is_known_of_them():
    listed = [
        {"name": "b", "type": "quorum", "messages": 3, "consumers": 1},
        {"name": "a"},
    ]
    async with serving(http(listed)) as api:
        found = await api_for(settings(f"http://127.0.0.1:{api.port}", vhost="/")).queues("c")

    assert found == (ListedQueue("a", "classic"), ListedQueue("b", "quorum", 3, 1))
    assert api.asked[0].startswith("GET /api/queues/%2F?columns=name,type,messages,consumers HTTP/1.1")


@pytest.mark.parametrize("body", [{"error": "x"}, [1], [{"type": "classic"}], None])
async def test_a_list_of_something_else_is_no_list_of_queues(body):
    async with serving(http(body)) as api:
        with pytest.raises(ManagementUnavailable):
            await api_for(settings(f"http://127.0.0.1:{api.port}")).queues("c")


async def test_a_server_without_tls_behind_https_is_no_answer():
    async with serving(b"HTTP/1.1 400 Bad Request\r\n\r\n") as api:
        with pytest.raises(ManagementUnavailable, match="ConnectError"):
            await api_for(settings(f"https://127.0.0.1:{api.port}")).queue_bindings("c", "q")


async def test_a_client_of_the_caller_is_asked_for_the_plain_answer_too():
    async with serving(http([])) as api, httpx.AsyncClient(trust_env=False) as client:
        assert await management.list_with(client, f"http://127.0.0.1:{api.port}/api/consumers/v", None) == []
    assert "accept-encoding: identity" in api.asked[0].lower()
