"""Taking messages with pika: by polling, or with a consumer whose window moves without acknowledging anything.

`TakenBatch` is `batches.Batch` on a real broker, on a channel of its own. `consume` and `queue_kind` also serve
`RMQHook.consume_messages`, whose deliveries outlive the call.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from types import TracebackType
from typing import Any, TypeAlias

import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

from airflow_provider_rmq.broker.batches import BlockingDelivery
from airflow_provider_rmq.broker.blocking import BlockingSession, Qos
from airflow_provider_rmq.broker.properties import Properties
from airflow_provider_rmq.broker.refusals import Operation, reply_of
from airflow_provider_rmq.broker.undecodable import raise_if_undecodable
from airflow_provider_rmq.errors import BrokerError, ConfigurationError, ConnectionLost, describe
from airflow_provider_rmq.messages.message import Message
from airflow_provider_rmq.messages.settlement import Settlement

logger = logging.getLogger("airflow.task")

#: Deliveries a consumer may have in flight where `qos` sets no prefetch.
DEFAULT_WINDOW = 1000

#: Seconds between two looks at an empty queue.
POLL_PAUSE = 0.1

#: What pika hands over: method, properties, body.
Taken: TypeAlias = tuple[Any, Properties, bytes]
Source: TypeAlias = Callable[[BlockingChannel], Iterator[Taken]]

_KIND_IN_REFUSAL = re.compile(r"queue type rabbit_(\w+)_queue")


class QueueKind(Enum):
    """What a queue is on the broker, whatever it was declared as."""

    CLASSIC = "classic"
    QUORUM = "quorum"
    STREAM = "stream"
    UNKNOWN = "unknown"


def taking(queue_name: str) -> Operation:
    """What taking from a queue is called in an error; it needs the read permission."""
    return Operation(what=f"take messages from queue {queue_name!r}", queue_permission="read")


def queue_kind(session: BlockingSession, queue_name: str) -> QueueKind:
    """Ask the broker for the type of a queue, without touching its messages.

    Only stream queues know the consumer argument `x-stream-offset`; the others refuse it and name their type (3.10.8
    and 4.0.5). A declare says nothing: a vhost's default type makes quorum queues nobody asked for.

    Raises:
        BrokerError: The queue does not exist, or may not be read.
    """
    try:
        channel = session.connection().channel()
        channel.basic_qos(prefetch_count=1)
        with _expected_refusal():
            channel.basic_consume(queue_name, _ignore, arguments={"x-stream-offset": "next"})
    except pika.exceptions.ChannelClosedByBroker as error:
        reply = reply_of(error)
        found = _KIND_IN_REFUSAL.search(reply[1]) if reply else None
        if found is None and "x-stream-offset" not in str(error):
            session.raise_translated(error, taking(queue_name))
        name = found[1] if found else "unknown"
        return QueueKind(name) if name in {kind.value for kind in QueueKind} else QueueKind.UNKNOWN
    except (pika.exceptions.AMQPError, OSError) as error:
        session.raise_translated(error, taking(queue_name))
    channel.close()
    return QueueKind.STREAM


@contextmanager
def _expected_refusal() -> Iterator[None]:
    """The client library warns of every channel the broker closes; here that is the answer to the question."""
    pika_logger = logging.getLogger("pika.channel")
    pika_logger.addFilter(_is_no_refused_offset)
    try:
        yield
    finally:
        pika_logger.removeFilter(_is_no_refused_offset)


def _is_no_refused_offset(record: logging.LogRecord) -> bool:
    return "x-stream-offset" not in record.getMessage()


def _ignore(*_delivery: object) -> None:
    """A stream's consumer at offset `next` is closed before anything comes."""


def window_of(qos: Qos | None, kind: QueueKind, queue_name: str) -> int:
    """Deliveries in flight for each consumer. `global_qos` gives the same limit to a channel of one consumer."""
    if qos is not None and qos.global_qos and kind in {QueueKind.QUORUM, QueueKind.STREAM}:
        logger.warning(
            "Queue %s is a %s queue, which knows no global QoS; prefetch_count holds for the consumer instead. "
            "Leave global_qos out of qos",
            queue_name,
            kind.value,
        )
    return (qos.prefetch_count if qos else 0) or DEFAULT_WINDOW


def check_stream_offset(kind: QueueKind, queue_name: str, stream_offset: str | int | None) -> None:
    """A stream keeps what was read, so where to begin has to be said; other queues have no offsets.

    Raises:
        ConfigurationError: The offset is missing, or one too many.
    """
    if kind is QueueKind.STREAM and stream_offset is None:
        raise ConfigurationError(
            f"queue {queue_name!r} is a stream, which keeps its messages when they are read; say where to begin with "
            "stream_offset='first', 'last', 'next', or a number"
        )
    if kind in {QueueKind.CLASSIC, QueueKind.QUORUM} and stream_offset is not None:
        raise ConfigurationError(f"queue {queue_name!r} is a {kind.value} queue; only streams have a stream_offset")


def poll(queue_name: str, limit: int, *, auto_ack: bool = False, inactivity_timeout: float = 0.0) -> Source:
    """Take messages one by one, until the queue has been empty for a while: none is taken that nobody looks at."""

    def source(channel: BlockingChannel) -> Iterator[Taken]:
        taken = 0
        idle_since = time.monotonic()
        while taken < limit:
            method, properties, body = channel.basic_get(queue_name, auto_ack=auto_ack)
            if method is not None:
                taken += 1
                yield method, properties, body or b""
                idle_since = time.monotonic()
                continue
            left = idle_since + inactivity_timeout - time.monotonic()
            if left <= 0:
                return
            channel.connection.sleep(min(left, POLL_PAUSE))

    return source


def consume(queue_name: str, limit: int, *, window: int, inactivity_timeout: float) -> Source:
    """Take messages with a consumer, until none has come for `inactivity_timeout` seconds.

    A window that is full is left behind with its deliveries unanswered, and a new consumer opens the next one: the
    prefetch counts for each consumer. The last window is no larger than what is still wanted.
    """

    def source(channel: BlockingChannel) -> Iterator[Taken]:
        taken = prefetch = 0
        while taken < limit:
            size = min(window, limit - taken)
            if size != prefetch:
                channel.basic_qos(prefetch_count=size)
                prefetch = size
            in_window = 0
            for method, properties, body in channel.consume(queue_name, inactivity_timeout=inactivity_timeout):
                if method is None:
                    break
                in_window += 1
                yield method, properties, body or b""
                if in_window == size:
                    break
            else:  # the broker cancelled the consumer: the queue was deleted, or all is over
                if not channel.is_open:
                    raise pika.exceptions.ChannelWrongStateError("the channel was closed while the queue was read")
                logger.warning("Queue %s was deleted while it was read", queue_name)
                return
            channel.cancel()
            taken += in_window
            if in_window < size:
                return

    return source


def read_stream(
    queue_name: str, limit: int, *, window: int, inactivity_timeout: float, stream_offset: str | int
) -> Source:
    """Read a stream. An acknowledgement only asks for more there; without the last ones nothing comes unasked."""

    def source(channel: BlockingChannel) -> Iterator[Taken]:
        size = min(window, limit)
        channel.basic_qos(prefetch_count=size)
        messages = channel.consume(
            queue_name, inactivity_timeout=inactivity_timeout, arguments={"x-stream-offset": stream_offset}
        )
        for taken, (method, properties, body) in enumerate(messages, start=1):
            if method is None:
                return
            yield method, properties, body or b""
            if taken == limit:
                return
            if taken <= limit - size:
                channel.basic_ack(method.delivery_tag)

    return source


class TakenBatch:
    """Deliveries on a channel of their own; a context manager. Left without `commit`, everything goes back."""

    def __init__(
        self, session: BlockingSession, queue_name: str, source: Source, *, kind: QueueKind = QueueKind.UNKNOWN
    ) -> None:
        self._session = session
        self._queue_name = queue_name
        self._source = source
        self._kind = kind
        self._operation = taking(queue_name)
        self._channel: BlockingChannel | None = None
        self._deliveries: list[BlockingDelivery] = []

    @property
    def returned(self) -> int:
        """Deliveries that went back to the queue, or will."""
        return sum(delivery.settlement in {None, Settlement.REQUEUE} for delivery in self._deliveries)

    def __enter__(self) -> TakenBatch:
        try:
            self._channel = self._session.connection().channel()
        except (pika.exceptions.AMQPChannelError, pika.exceptions.ConnectionClosed) as error:
            self._session.raise_translated(error, self._operation)
        return self

    def __iter__(self) -> Iterator[BlockingDelivery]:
        channel = self._open_channel()
        try:
            for method, properties, body in self._source(channel):
                delivery = BlockingDelivery(message_of(method, properties, body, self._queue_name), method.delivery_tag)
                self._deliveries.append(delivery)
                yield delivery
        except (pika.exceptions.AMQPError, OSError) as error:
            self._session.raise_translated(error, self._operation)

    def commit(self) -> None:
        """Send the settlements and close the channel, which returns the rest; its answer proves that all arrived.

        Raises:
            ConnectionLost: The connection was gone before: nothing was acknowledged, everything is back in the queue.
        """
        channel = self._open_channel()
        frames = [] if self._kind is QueueKind.STREAM else list(self._frames(channel))
        try:
            if not channel.is_open:
                raise pika.exceptions.ChannelWrongStateError("the channel is closed")
            channel.connection.process_data_events(0)  # notice a connection that died while the filter was at work
            for send in frames[:1]:
                send()
        except (pika.exceptions.AMQPError, OSError) as error:
            raise ConnectionLost(
                f"{self._operation.what}: the connection was lost before the messages were acknowledged, so they are "
                f"back in the queue ({describe(error)}). A filter_callable that runs longer than two heartbeats of "
                f"{self._session.settings.blocking_heartbeat} s loses it"
            ) from error
        try:
            for send in frames[1:]:
                send()
            if self._kind is not QueueKind.CLASSIC:
                self._session.let_settlements_arrive(channel, sum(map(_is_acknowledged, self._deliveries)))
            self._close(channel)
        except (pika.exceptions.AMQPError, OSError) as error:
            logger.warning(
                "Queue %s: the connection was lost while messages were acknowledged (%s); those of this batch may be "
                "delivered once more",
                self._queue_name,
                describe(error),
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._channel is None or not self._channel.is_open:
            return
        if error is None:
            self._close(self._channel)
        else:  # a signal may have struck inside pika, so the channel's own state is not to be trusted
            self._session.close()

    def _frames(self, channel: BlockingChannel) -> Iterator[Callable[[], None]]:
        """One frame for the acknowledged head of the batch, one for each settlement behind it."""
        head = 0
        for delivery in self._deliveries:
            if delivery.settlement is not Settlement.ACK:
                break
            head = delivery.tag
        if head:
            yield partial(channel.basic_ack, head, multiple=True)
        for delivery in self._deliveries:
            if delivery.tag > head and delivery.settlement is Settlement.ACK:
                yield partial(channel.basic_ack, delivery.tag)
            elif delivery.settlement is Settlement.DEAD_LETTER:
                yield partial(channel.basic_reject, delivery.tag, requeue=False)

    def _close(self, channel: BlockingChannel) -> None:
        self._channel = None
        channel.close()

    def _open_channel(self) -> BlockingChannel:
        if self._channel is None:
            raise BrokerError(f"{self._operation.what}: the batch is closed")
        return self._channel


def _is_acknowledged(delivery: BlockingDelivery) -> bool:
    return delivery.settlement is Settlement.ACK


def message_of(method: Any, properties: Properties, body: bytes, queue_name: str) -> Message:
    """A delivery of pika as a message.

    Raises:
        UndecodableMessage: Its headers cannot be read, so no filter can be asked; it stays in the queue.
    """
    raise_if_undecodable(properties.headers, queue_name)
    return Message(
        body=body,
        headers=properties.headers or {},
        routing_key=method.routing_key,
        exchange=method.exchange,
        queue=queue_name,
        message_id=properties.message_id,
        redelivered=bool(method.redelivered),
        content_encoding=properties.content_encoding,
        properties=properties,
    )
