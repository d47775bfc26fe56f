"""Publishes cooldown markers: confirmed, mandatory, persistent, on a connection that consumes nothing.

**One marker for each window.** A pending queue of the classic type refuses a second marker; one of the quorum type
takes two (seen on RabbitMQ 3.10 and 4.0), and both would fire. It cannot be redeclared, so a second marker is kept
from being published, and if two processes manage it all the same it is made harmless:

1. `open_window` first asks the pending queue, on the same channel, whether a marker waits in it; then the window is
   open and nothing is published. The caller (`service.cooldown_windows`) has one attempt a window in flight.
2. Two Schedulers may still ask at the same moment and publish both. So the `message_id`, which becomes the id of the
   DAG run, is no random one but made of DAG, cooldown and the moment in steps of a quarter of the cooldown: both
   markers have the same one and meet in the same run. Windows that follow each other lie a whole cooldown apart and
   never share a step, as long as the Schedulers' clocks agree within three quarters of a cooldown.

Outcomes are values, not errors: a delivery waits for each of them.
"""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum

from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import AMQPError, ChannelClosed, ChannelNotFoundEntity
from aiormq.exceptions import ChannelInvalidStateError, DeliveryError, PublishError

from airflow_provider_rmq.broker.deadlines import call_with_timeout
from airflow_provider_rmq.broker.pool import ConnectionPool, Role
from airflow_provider_rmq.broker.topology import pending_queue_name
from airflow_provider_rmq.errors import BrokerError, describe
from airflow_provider_rmq.messages.markers import MarkerPayload, payload_header

#: Publish time-outs in a row after which the publishing connection is opened again.
TIMEOUTS_UNTIL_RECREATION = 2
#: Steps of a cooldown in which two markers of different processes count as the same window.
STEPS_PER_COOLDOWN = 4

_MARKER_IDS = uuid.UUID("8d0b2a9e-6f0a-4f0e-9a54-0d8c1e7f3b21")


class MarkerOutcome(Enum):
    """What became of the attempt to open a window."""

    OPENED = "the broker has the marker"
    OPEN_ALREADY = "a marker waits already"
    RETURNED = "no queue took the marker"
    TIMED_OUT = "the broker gave no answer in time"
    FAILED = "the broker or the link refused"

    @property
    def is_open(self) -> bool:
        """Whether a window is open now, so that its end will start the DAG."""
        return self in (MarkerOutcome.OPENED, MarkerOutcome.OPEN_ALREADY)


@dataclass(frozen=True, slots=True)
class MarkerReport:
    """An outcome, and its reason where no window is open."""

    outcome: MarkerOutcome
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """What stands for one cooldown window of a DAG."""

    dag_id: str
    cooldown: int
    payload: MarkerPayload | None = None

    def message_id(self, now: float) -> str:
        """The id of the window that opens now; `now` in seconds since the epoch."""
        step = math.floor(now * STEPS_PER_COOLDOWN / self.cooldown)
        return str(uuid.uuid5(_MARKER_IDS, f"{self.dag_id}\n{self.cooldown}\n{step}"))


@dataclass(slots=True)
class _SteadyClock:
    """Seconds since the epoch that never step back within a process, whatever happens to the machine's clock."""

    offset: float = field(default_factory=lambda: time.time() - time.monotonic())

    def __call__(self) -> float:
        return self.offset + time.monotonic()


async def _waiting_markers(channel: AbstractChannel, queue_name: str) -> int:
    queue = await channel.declare_queue(queue_name, passive=True)
    return queue.declaration_result.message_count or 0


@dataclass(slots=True)
class MarkerPublisher:
    """Opens cooldown windows; a channel for each pending queue, so that a missing one disturbs no other."""

    pool: ConnectionPool
    clock: Callable[[], float] = field(default_factory=_SteadyClock)
    waiting_markers: Callable[[AbstractChannel, str], Awaitable[int]] = _waiting_markers
    _channels: dict[tuple[str, str], AbstractChannel] = field(default_factory=dict)
    _timeouts: dict[str, int] = field(default_factory=dict)

    async def open_window(self, conn_id: str, marker: Marker) -> MarkerReport:
        """Open a window unless one is open; never raises for what a broker or a link does."""
        queue_name = pending_queue_name(marker.dag_id)
        try:
            connection = await self.pool.connection(conn_id, Role.PUBLISH)
        except BrokerError as error:
            return MarkerReport(MarkerOutcome.FAILED, describe(error))
        bound = connection.settings.rpc_timeout
        try:
            channel = await call_with_timeout(self._channel(conn_id, queue_name, connection.amqp.channel), bound)
            outcome = await call_with_timeout(self._publish(channel, queue_name, marker), bound)
        except asyncio.TimeoutError:
            await self._timed_out(conn_id)
            return MarkerReport(
                MarkerOutcome.TIMED_OUT, f"queue {queue_name}: no confirmation of the marker within {bound:g} s"
            )
        except PublishError:
            return MarkerReport(MarkerOutcome.RETURNED, f"queue {queue_name} does not exist, the marker came back")
        except ChannelNotFoundEntity:
            return MarkerReport(
                MarkerOutcome.RETURNED, f"queue {queue_name} does not exist, it has no place for a marker"
            )
        except DeliveryError:
            return MarkerReport(MarkerOutcome.OPEN_ALREADY)
        except (AMQPError, ChannelClosed, ChannelInvalidStateError, OSError, RuntimeError, ValueError) as error:
            return MarkerReport(MarkerOutcome.FAILED, f"queue {queue_name}: {describe(error)}")
        self._timeouts.pop(conn_id, None)
        return MarkerReport(outcome)

    async def _channel(self, conn_id: str, queue_name: str, make: Callable[..., AbstractChannel]) -> AbstractChannel:
        known = self._channels.get((conn_id, queue_name))
        if known is not None and not known.is_closed:
            return known
        channel = make(publisher_confirms=True, on_return_raises=True)
        await channel.initialize()
        self._channels[conn_id, queue_name] = channel
        return channel

    async def _publish(self, channel: AbstractChannel, queue_name: str, marker: Marker) -> MarkerOutcome:
        if await self.waiting_markers(channel, queue_name):
            return MarkerOutcome.OPEN_ALREADY
        payload = marker.payload
        message = Message(
            body=payload.body if payload else b"",
            headers=payload_header() if payload else None,
            delivery_mode=DeliveryMode.PERSISTENT,
            expiration=marker.cooldown,
            message_id=marker.message_id(self.clock()),
        )
        await channel.default_exchange.publish(message, routing_key=queue_name, mandatory=True)
        return MarkerOutcome.OPENED

    async def _timed_out(self, conn_id: str) -> None:
        """Count; after the second in a row the connection is dropped with all its channels."""
        self._timeouts[conn_id] = self._timeouts.get(conn_id, 0) + 1
        if self._timeouts[conn_id] >= TIMEOUTS_UNTIL_RECREATION:
            self._timeouts.pop(conn_id)
            for key in [key for key in self._channels if key[0] == conn_id]:
                del self._channels[key]
            await self.pool.recreate(conn_id, Role.PUBLISH)
