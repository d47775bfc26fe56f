"""What becomes of an attempt to open a cooldown window, for every answer a broker and a link can give."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from aio_pika import DeliveryMode
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import (
    ChannelInvalidStateError,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DeliveryError,
    PublishError,
)
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from airflow_provider_rmq.broker.pool import Role
from airflow_provider_rmq.broker.publishing import Marker, MarkerOutcome, MarkerPublisher
from airflow_provider_rmq.errors import ConnectionLost
from airflow_provider_rmq.messages.markers import MarkerPayload

pytestmark = pytest.mark.looptime

MARKER = Marker(dag_id="d", cooldown=300)


def returned():
    delivery = Basic.Return(312, "NO_ROUTE", "", "rmq_watcher.pending.d")
    message = DeliveredMessage(delivery=delivery, header=ContentHeader(), body=b"", channel=None)
    return PublishError(message, delivery)


class Broker:
    """One vhost: what waits in the queue, what was published, and what goes wrong."""

    def __init__(self):
        self.waiting = 0
        self.published = []
        self.publish_error = self.declare_error = None
        self.silent = False
        self.channels = []
        self.recreated = []

    async def connection(self, conn_id, role):
        assert role is Role.PUBLISH
        if isinstance(self.silent, ConnectionLost):
            raise self.silent
        return SimpleNamespace(settings=SimpleNamespace(rpc_timeout=30.0), amqp=SimpleNamespace(channel=self.channel))

    async def recreate(self, conn_id, role):
        self.recreated.append((conn_id, role))

    def channel(self, *, publisher_confirms, on_return_raises):
        assert publisher_confirms
        assert on_return_raises
        self.channels.append(Channel(self))
        return self.channels[-1]


class Channel:
    def __init__(self, broker):
        self.broker = broker
        self.is_closed = False
        self.default_exchange = self

    async def initialize(self):
        await self.answer(None)

    async def declare_queue(self, name, *, passive):
        assert passive
        await self.answer(self.broker.declare_error)
        return SimpleNamespace(declaration_result=SimpleNamespace(message_count=self.broker.waiting))

    async def publish(self, message, *, routing_key, mandatory):
        assert mandatory
        await self.answer(self.broker.publish_error)
        self.broker.published.append((routing_key, message))

    async def answer(self, error):
        if self.broker.silent:
            await asyncio.sleep(10_000)
        if error is not None:
            self.is_closed = isinstance(error, (ChannelNotFoundEntity, ChannelPreconditionFailed))
            raise error


@pytest.fixture
def broker():
    return Broker()


@pytest.fixture
def publisher(broker):
    return MarkerPublisher(broker)


async def test_a_marker_is_persistent_empty_and_lives_for_the_cooldown(broker, publisher):
    """L26: persistent, so that a window survives the broker's restart."""
    report = await publisher.open_window("c", MARKER)

    assert (report.outcome, report.reason) == (MarkerOutcome.OPENED, "")
    ((queue, message),) = broker.published
    assert queue == "rmq_watcher.pending.d"
    assert (message.body, message.delivery_mode, message.properties.expiration) == (
        b"",
        DeliveryMode.PERSISTENT,
        "300000",
    )
    assert message.message_id


async def test_a_kept_message_rides_in_the_marker(broker, publisher):
    await publisher.open_window("c", Marker(dag_id="d", cooldown=300, payload=MarkerPayload(b"{}")))

    ((_, message),) = broker.published
    assert (message.body, message.headers) == (b"{}", {"x-rmq-watcher-payload": 1})


async def test_a_marker_that_waits_already_keeps_a_second_from_being_published(broker, publisher):
    """L27: a quorum queue would take the second."""
    broker.waiting = 1

    assert (await publisher.open_window("c", MARKER)).outcome is MarkerOutcome.OPEN_ALREADY
    assert broker.published == []


async def test_a_queue_that_is_full_behind_the_look_means_an_open_window(broker, publisher):
    broker.publish_error = DeliveryError(None, Basic.Nack(1))

    assert (await publisher.open_window("c", MARKER)).outcome is MarkerOutcome.OPEN_ALREADY


@pytest.mark.parametrize("at", ["declare_error", "publish_error"])
async def test_a_missing_pending_queue_returns_the_marker_and_is_named(broker, publisher, at):
    """B19."""
    setattr(broker, at, ChannelNotFoundEntity("NOT_FOUND") if at == "declare_error" else returned())

    report = await publisher.open_window("c", MARKER)

    assert report.outcome is MarkerOutcome.RETURNED
    assert not report.outcome.is_open
    assert "rmq_watcher.pending.d does not exist" in report.reason


async def test_no_answer_is_a_timeout_within_the_bound(broker, publisher, looptime):
    broker.silent = True

    report = await publisher.open_window("c", MARKER)

    assert report.outcome is MarkerOutcome.TIMED_OUT
    assert "within 30 s" in report.reason
    assert looptime <= 60
    assert broker.recreated == []


async def test_the_second_timeout_in_a_row_opens_the_publishing_connection_again(broker, publisher):
    broker.silent = True
    for _ in range(2):
        await publisher.open_window("c", MARKER)
    assert broker.recreated == [("c", Role.PUBLISH)]

    broker.silent = False
    opened = len(broker.channels)
    await publisher.open_window("c", MARKER)
    assert len(broker.channels) == opened + 1

    broker.silent = True
    await publisher.open_window("c", MARKER)
    assert len(broker.recreated) == 1


async def test_timeouts_with_a_success_between_them_are_not_in_a_row(broker, publisher):
    for silent in (True, False, True):
        broker.silent = silent
        await publisher.open_window("c", MARKER)

    assert broker.recreated == []


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ChannelPreconditionFailed("PRECONDITION_FAILED"), "ChannelPreconditionFailed: PRECONDITION_FAILED"),
        (ChannelInvalidStateError(), "ChannelInvalidStateError"),
        (ConnectionResetError(), "ConnectionResetError"),
        (RuntimeError("closing"), "RuntimeError: closing"),
    ],
)
async def test_any_other_refusal_is_a_failure_with_a_text(broker, publisher, error, text):
    """L34: an error without a text is named by its type."""
    broker.publish_error = error

    report = await publisher.open_window("c", MARKER)

    assert (report.outcome, report.reason) == (MarkerOutcome.FAILED, f"queue rmq_watcher.pending.d: {text}")


async def test_no_connection_is_a_failure(broker, publisher):
    broker.silent = ConnectionLost("nobody there")

    assert (await publisher.open_window("c", MARKER)).reason == "ConnectionLost: nobody there"


async def test_a_channel_serves_one_queue_until_it_is_closed(broker, publisher):
    await publisher.open_window("c", MARKER)
    await publisher.open_window("c", MARKER)
    await publisher.open_window("c", Marker(dag_id="other", cooldown=1))
    assert len(broker.channels) == 2

    broker.declare_error = ChannelNotFoundEntity("gone")
    await publisher.open_window("c", MARKER)
    broker.declare_error = None
    assert (await publisher.open_window("c", MARKER)).outcome is MarkerOutcome.OPENED
    assert len(broker.channels) == 3


def test_markers_of_one_window_share_an_id_and_windows_in_a_row_never_do():
    """L27: two processes that publish at once meet in one run."""
    ids = {MARKER.message_id(1_000_000 + 300 * number) for number in range(1000)}

    assert len(ids) == 1000
    assert MARKER.message_id(1_000_005) == MARKER.message_id(1_000_006)
    assert MARKER.message_id(1_000_000) != Marker(dag_id="e", cooldown=300).message_id(1_000_000)
    assert MARKER.message_id(1_000_000) != Marker(dag_id="d", cooldown=600).message_id(1_000_000)


async def test_a_clock_that_is_set_back_changes_neither_the_window_nor_its_id(broker, publisher, monkeypatch):
    """B59: the broker counts milliseconds, and the id comes from a clock that only goes on."""
    monkeypatch.setattr(time, "time", lambda: 0.0)

    before = publisher.clock()
    await publisher.open_window("c", MARKER)
    monkeypatch.setattr(time, "time", lambda: -3600.0)
    await publisher.open_window("c", MARKER)

    assert publisher.clock() >= before
    assert [message.properties.expiration for _, message in broker.published] == ["300000", "300000"]
    assert abs(publisher.clock() - time.monotonic() - publisher.clock.offset) < 60
