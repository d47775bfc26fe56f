"""Messages that aiormq cannot decode, on a real broker: neighbours on the same connection notice nothing (L30, B01)."""

import asyncio
import struct

import pytest

from airflow_provider_rmq.broker.attachment import QueueSource
from airflow_provider_rmq.broker.consuming import Disposition, consume
from airflow_provider_rmq.messages.backoff import Backoff
from airflow_provider_rmq.messages.settlement import Settlement
from integration.lab.waiting import wait_until
from integration.surface.raw_headers import field, publish_raw
from integration.watcher.pools import pool_for

BEFORE_1970 = 2**64 - 14256000


def nested(depth):
    value = b""
    for _ in range(depth):
        value = b"A" + struct.pack(">I", len(value)) + value
    return field("deep", b"", value)


class Consumer:
    """A running consumer; what it handled, and what it was told."""

    def __init__(self, pool, queue):
        self.queue = queue
        self.messages, self.tags, self.ends, self.told = [], [], [], []
        self.stop = asyncio.Event()
        source = QueueSource(pool, "c", queue, "rmqtest", 4)
        self.task = asyncio.ensure_future(
            consume(source, self.handle, self, stop=self.stop, window=4, pauses=Backoff(0.5, 5))
        )

    async def handle(self, message):
        self.messages.append(message)
        return Disposition(settlement=Settlement.ACK)

    def attaching(self):
        """Nothing to note."""

    def attached(self, tag, since):
        self.tags.append(tag)

    def detached(self, reason):
        self.ends.append(reason)

    def queue_missing(self, reason):
        self.ends.append(reason)

    def answered(self, event):
        """Nothing to note."""

    def unreadable(self, reason):
        self.told.append(reason)


@pytest.fixture
async def consumers(broker_url, vhost, queue_name):
    pool = pool_for(broker_url)
    queues = [vhost.declare(f"{queue_name}.{number}") for number in range(5)]
    running = [Consumer(pool, queue) for queue in queues]
    await soon(lambda: all(one.tags for one in running), "all to attach")
    yield running
    for one in running:
        one.stop.set()
    await asyncio.wait({one.task for one in running})
    await pool.close()
    for queue in queues:
        vhost.delete(queue)


async def soon(condition, what):
    return await asyncio.to_thread(wait_until, condition, 30, what)


async def test_a_date_before_1970_in_a_header_arrives_as_one(consumers, vhost):
    """B01, second value."""
    publish_raw(vhost, consumers[0].queue, field("ts", b"T", struct.pack(">Q", BEFORE_1970)))

    await soon(lambda: consumers[0].messages, "the message")

    assert consumers[0].messages[0].as_xcom()["headers"] == {"ts": "1969-07-20T00:00:00+00:00"}
    assert [len(one.tags) for one in consumers] == [1] * 5


@pytest.mark.parametrize("depth", [150, 400])
async def test_a_header_nobody_can_decode_is_held_and_named_and_costs_the_neighbours_nothing(consumers, vhost, depth):
    """L30."""
    culprit, *neighbours = consumers
    publish_raw(vhost, culprit.queue, nested(depth))
    vhost.publish(culprit.queue, "behind it")
    await soon(lambda: culprit.messages, "the message behind it")
    for one in neighbours:
        vhost.publish(one.queue, "x")

    await soon(lambda: all(one.messages for one in neighbours), "the neighbours' messages")
    await soon(lambda: culprit.told, "the message to be named")

    assert culprit.queue in culprit.told[0]
    assert "tables within tables" in culprit.told[0]
    assert "ack_requeue_false" in culprit.told[0]
    assert [one.text() for one in culprit.messages] == ["behind it"]
    assert [len(one.tags) for one in consumers] == [1] * 5
    assert [one.ends for one in consumers] == [[]] * 5


async def test_a_routing_key_that_is_not_text_is_delivered(consumers, vhost):
    """pika cannot publish such a key, so its frame is packed by hand."""
    queue = consumers[0].queue
    with vhost.channel() as channel:
        channel.exchange_declare("rmqtest.odd", "topic", auto_delete=True)
        channel.queue_bind(queue, "rmqtest.odd", "#")
        channel.basic_publish("rmqtest.odd", BadText(b"a\xffb"), b"x", mandatory=True)

    await soon(lambda: consumers[0].messages, "the message")

    assert consumers[0].messages[0].routing_key == "a\ufffdb"
    assert [len(one.tags) for one in consumers] == [1] * 5


class BadText(str):
    """Text whose UTF-8 is none."""

    __slots__ = ("raw",)

    def __new__(cls, raw):
        made = super().__new__(cls, raw.decode(errors="replace"))
        made.raw = raw
        return made

    def encode(self, *_args, **_given):
        return self.raw
