"""One consumer on one queue: attach, hand over deliveries, notice when the registration is gone.

`consuming` is the loop above it. Errors of the client library end here.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import uuid4

from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import AMQPError, ChannelClosed, ChannelNotFoundEntity
from aiormq.exceptions import (
    ChannelAccessRefused,
    ChannelInvalidStateError,
    ChannelLockedResource,
    ChannelPreconditionFailed,
    ConnectionNotImplemented,
)

from airflow_provider_rmq.broker.deadlines import call_with_timeout
from airflow_provider_rmq.broker.pool import ConnectionPool
from airflow_provider_rmq.broker.refusals import Operation, refusal
from airflow_provider_rmq.broker.undecodable import undecodable_reason
from airflow_provider_rmq.errors import (
    AlreadySettled,
    BrokerError,
    ConnectionLost,
    QueueMissing,
    RegistrationLost,
    describe,
)
from airflow_provider_rmq.messages.message import Message
from airflow_provider_rmq.messages.settlement import Settlement

T = TypeVar("T")

#: Seconds between two looks at the client's consumer map while nothing arrives.
REGISTRATION_CHECK_INTERVAL = 0.5
#: Seconds a channel may take to close.
CHANNEL_CLOSE_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class QueueSource:
    """Where deliveries come from: a queue on the connection of a conn_id.

    Args:
        tag_prefix: Consumer tags are this and eight hex digits, fresh for every attach, so that a ghost consumer the
            broker still holds is not taken for its successor.
        prefetch: Deliveries the broker hands over before the first is settled.
    """

    pool: ConnectionPool
    conn_id: str
    queue_name: str
    tag_prefix: str
    prefetch: int

    @asynccontextmanager
    async def attach(self) -> AsyncIterator[QueueAttachment]:
        """Register a consumer and hold it; leaving closes its channel, and the broker takes back what is unsettled.

        Raises:
            BrokerError: The broker or the link refused, as one of its leaves.
        """
        connection = await self.pool.connection(self.conn_id)
        bound = connection.settings.rpc_timeout
        channel = connection.amqp.channel(publisher_confirms=False)
        attachment = QueueAttachment(channel, self.queue_name, f"{self.tag_prefix}.{uuid4().hex[:8]}", bound)
        try:
            await answered(channel.initialize(), bound, self.queue_name)
            await attachment.register(self.prefetch)
            yield attachment
        finally:
            await close_channel(channel)


class QueueAttachment:
    """A registered consumer; iterate it for its deliveries."""

    def __init__(self, channel: AbstractChannel, queue_name: str, tag: str, rpc_timeout: float) -> None:
        """Not registered yet; `QueueSource.attach` makes these."""
        self.tag = tag
        self.since = time.monotonic()
        self._channel = channel
        self._queue_name = queue_name
        self._rpc_timeout = rpc_timeout
        self._arrived: deque[QueueDelivery] = deque()
        self._end: BrokerError | None = None
        self._finished = False
        self._waiter: asyncio.Future[None] | None = None
        self._queue: AbstractQueue | None = None
        self._underlay: Any = None  # aiormq's channel; its class has `consumers`, its protocol not

    async def register(self, prefetch: int) -> None:
        """Look the queue up and start consuming; the tag counts from the broker's confirmation on."""
        self._channel.close_callbacks.add(self._channel_closed)
        await self._call(self._channel.set_qos(prefetch_count=prefetch))
        self._queue = await self._call(self._channel.get_queue(self._queue_name, ensure=True))
        await self._call(self._queue.consume(self._delivered, consumer_tag=self.tag))
        self.since = time.monotonic()
        self._underlay = await self._call(self._channel.get_underlay_channel())

    async def set_prefetch(self, prefetch: int) -> None:
        """Change the prefetch by registering anew on the same channel; what is unsettled stays unsettled.

        A broker applies `basic.qos` to the consumers that come after it, not to those that are there.

        Raises:
            BrokerError: The broker or the link refused.
        """
        if self._queue is None:
            raise RegistrationLost(f"the consumer on queue {self._queue_name} is not registered")
        old, new = self.tag, f"{self.tag.rpartition('.')[0]}.{uuid4().hex[:8]}"
        await self._call(self._channel.set_qos(prefetch_count=prefetch))
        await self._call(self._queue.consume(self._delivered, consumer_tag=new))
        self.tag, self.since = new, time.monotonic()
        await self._call(self._queue.cancel(old))

    async def stop(self) -> None:
        """End the consumer; what is unsettled stays with the channel, and nothing more is delivered on it.

        Raises:
            BrokerError: The broker or the link refused.
        """
        if self._queue is not None:
            await self._call(self._queue.cancel(self.tag))

    def finish(self) -> None:
        """End the iteration after the delivery that is being handed over; what is unsettled goes back."""
        self._finished = True
        self._wake()

    def abort(self, error: BrokerError) -> None:
        """End the iteration with an error; the first one counts."""
        self._end = self._end or error
        self._wake()

    def __aiter__(self) -> QueueAttachment:
        """The attachment is its own iterator."""
        return self

    async def __anext__(self) -> QueueDelivery:
        """The next delivery.

        Raises:
            BrokerError: The registration is gone, and why.
        """
        while True:
            if self._end is not None:
                raise self._end
            if self._finished:
                raise StopAsyncIteration
            if self._arrived:
                return self._arrived.popleft()
            self._waiter = asyncio.get_running_loop().create_future()
            done, _ = await asyncio.wait({self._waiter}, timeout=REGISTRATION_CHECK_INTERVAL)
            if not done:
                self._check_registration()

    @property
    def holds_registration(self) -> bool:
        """Whether our own channel still holds the consumer tag.

        A `basic.cancel` from the broker (queue deleted, leader moved) shows nowhere else: aiormq 6.9 and 7.2 drop the
        tag from the channel's consumer map and leave channel and connection open.
        """
        channel = self._underlay
        return channel is not None and not channel.is_closed and self.tag in channel.consumers

    def _check_registration(self) -> None:
        if self._underlay is None or self._underlay.is_closed:
            self.abort(ConnectionLost(f"the channel of queue {self._queue_name} is gone"))
        elif not self.holds_registration:
            self.abort(RegistrationLost(f"the broker cancelled the consumer on queue {self._queue_name}"))

    async def _delivered(self, incoming: AbstractIncomingMessage) -> None:
        self._arrived.append(QueueDelivery(incoming, self._queue_name, self._rpc_timeout))
        self._wake()

    def _channel_closed(self, _: object, error: BaseException | None) -> None:
        reason = describe(error) if error else "closed"
        self.abort(ConnectionLost(f"the channel of queue {self._queue_name} is gone: {reason}"))

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _call(self, awaitable: Awaitable[T]) -> T:
        return await answered(awaitable, self._rpc_timeout, self._queue_name)


class QueueDelivery:
    """One handing-over of a message on a channel; settled at most once.

    `undecodable` says why its properties cannot be decoded, None where they can; such a message has no headers.
    """

    def __init__(self, incoming: AbstractIncomingMessage, queue_name: str, rpc_timeout: float) -> None:
        """Wrap what the client library delivered."""
        self.undecodable = undecodable_reason(incoming.headers)
        self.message = Message(
            body=incoming.body,
            headers=dict(incoming.headers or {}),
            routing_key=incoming.routing_key or "",
            exchange=incoming.exchange or "",
            queue=queue_name,
            message_id=incoming.message_id,
            redelivered=bool(incoming.redelivered),
            content_encoding=incoming.content_encoding,
            properties=incoming,
        )
        self._incoming = incoming
        self._queue_name = queue_name
        self._rpc_timeout = rpc_timeout
        self._settled = False

    async def settle(self, settlement: Settlement) -> None:
        """Answer the delivery.

        Raises:
            AlreadySettled: It was answered before.
            BrokerError: The frame could not be sent; the broker takes the delivery back.
        """
        if self._settled:
            raise AlreadySettled(f"a delivery of queue {self._queue_name} was settled twice")
        self._settled = True
        frames = {
            Settlement.ACK: self._incoming.ack,
            Settlement.REQUEUE: self._requeue,
            Settlement.DEAD_LETTER: self._dead_letter,
        }
        await answered(frames[settlement](), self._rpc_timeout, self._queue_name)

    async def _requeue(self) -> None:
        await self._incoming.nack(requeue=True)

    async def _dead_letter(self) -> None:
        await self._incoming.reject(requeue=False)


async def answered(awaitable: Awaitable[T], bound: float, queue_name: str) -> T:
    """Await one AMQP call within its bound; the client library's errors end here."""
    try:
        return await call_with_timeout(awaitable, bound)
    except asyncio.TimeoutError as error:
        raise ConnectionLost(f"queue {queue_name}: the broker gave no answer within {bound:g} s") from error
    except ChannelNotFoundEntity as error:
        raise QueueMissing(f"queue {queue_name} does not exist: {describe(error)}") from error
    except (ChannelAccessRefused, ChannelLockedResource, ChannelPreconditionFailed, ConnectionNotImplemented) as error:
        taking = Operation(what=f"consume from queue {queue_name!r}", queue_permission="read")
        raise (refusal(error, taking) or ConnectionLost(f"queue {queue_name}: {describe(error)}")) from error
    except (AMQPError, ChannelClosed, ChannelInvalidStateError, OSError, RuntimeError) as error:
        raise ConnectionLost(f"queue {queue_name}: {describe(error)}") from error


async def close_channel(channel: AbstractChannel) -> None:
    """Close a channel; a failure means it is gone already, which is what closing wants."""
    if channel.is_closed:
        return
    try:
        await call_with_timeout(channel.close(), CHANNEL_CLOSE_TIMEOUT)
    except (asyncio.TimeoutError, AMQPError, OSError, RuntimeError):
        return
