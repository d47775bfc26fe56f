"""The consume loop on a real queue, without Airflow: the window, the prefetch, what the broker gets back."""

import asyncio
from collections import Counter

import pytest

from airflow_provider_rmq.broker.attachment import QueueSource
from airflow_provider_rmq.broker.consuming import Disposition, consume
from airflow_provider_rmq.broker.pool import ConnectionPool
from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.compat import ConnectionRecord
from airflow_provider_rmq.messages.backoff import Backoff
from airflow_provider_rmq.messages.settlement import Settlement
from integration.lab.airflow import rmq_connection
from integration.lab.waiting import wait_until

WINDOW = 20


class Silent:
    """An observer that keeps the tags."""

    def __init__(self):
        self.tags = []

    def attaching(self):
        """Nothing to note."""

    def attached(self, tag, since):
        self.tags.append(tag)

    def detached(self, reason):
        """Nothing to note."""

    def queue_missing(self, reason):
        """Nothing to note."""

    def answered(self, event):
        """Nothing to note."""

    def unreadable(self, reason):
        """Nothing to note."""


@pytest.fixture
async def pool(broker_url):
    fields = rmq_connection(broker_url)
    names = ("host", "port", "login", "password", "schema")
    record = ConnectionRecord(conn_id="rmq_default", **{name: fields[name] for name in names})

    async def lookup(conn_id):
        return ConnectionSettings.from_record(record)

    pool = ConnectionPool(lookup, "test")
    yield pool
    await pool.close()


async def run_until(pool, queue_name, handler, done, seconds=120):
    stop, observer = asyncio.Event(), Silent()
    source = QueueSource(pool, "rmq_default", queue_name, "rmqtest", WINDOW)
    task = asyncio.ensure_future(consume(source, handler, observer, stop=stop, window=WINDOW, pauses=Backoff(0.5, 5)))
    try:
        await asyncio.to_thread(wait_until, done, seconds, "the handler to have seen what it waits for")
    finally:
        stop.set()
        await task
    return observer


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
async def test_a_match_behind_ten_thousand_misses_is_found(pool, vhost, queue_name, queue_type):
    vhost.declare(queue_name, arguments={"x-queue-type": queue_type})
    vhost.publish(queue_name, *["miss"] * 10_000, "match")
    seen = Counter()

    async def handler(message):
        seen[message.text()] += 1
        if message.text() == "match":
            return Disposition(settlement=Settlement.ACK)
        return Disposition(settlement=Settlement.REQUEUE, hold=0.1)

    observer = await run_until(pool, queue_name, handler, lambda: seen["match"])

    assert seen["match"] == 1
    assert len(observer.tags) > 1
    assert await asyncio.to_thread(vhost.depth, queue_name) == 10_000


async def test_every_message_of_a_backlog_is_answered_once_within_the_window(pool, vhost, queue_name):
    vhost.declare(queue_name)
    vhost.publish(queue_name, *(str(number) for number in range(2000)))
    seen, running, most = Counter(), 0, 0

    async def handler(message):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        seen[message.text()] += 1
        running -= 1
        return Disposition(settlement=Settlement.ACK)

    observer = await run_until(pool, queue_name, handler, lambda: len(seen) == 2000)

    assert set(seen.values()) == {1}
    assert most <= WINDOW
    assert len(observer.tags) == 1
    assert await asyncio.to_thread(vhost.depth, queue_name) == 0


async def test_rejected_messages_leave_when_the_policy_says_so(pool, vhost, queue_name):
    vhost.declare(queue_name)
    vhost.publish(queue_name, *["foreign"] * 3000)
    seen = Counter()

    async def handler(message):
        seen[message.text()] += 1
        return Disposition(settlement=Settlement.ACK)

    await run_until(pool, queue_name, handler, lambda: seen["foreign"] == 3000)

    assert await asyncio.to_thread(vhost.depth, queue_name) == 0
