"""Messages that no rule can decode: kept out of the way of the others, named, and given back now and then.

Such a message cannot be judged, so it is never acknowledged. Requeued at once it would come again at once. So it stays
unsettled for a growing time while the consumer goes on with its other messages, and then goes back to its queue. When
it does not come again, somebody has taken it out, and the consumer is told that all is well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from airflow_provider_rmq.broker.window import wait_until_set
from airflow_provider_rmq.messages.backoff import Backoff
from airflow_provider_rmq.messages.message import Message
from airflow_provider_rmq.messages.misses import is_power_of_ten
from airflow_provider_rmq.messages.settlement import Settlement

log = logging.getLogger(__name__)

#: Seconds one is held: the first time, and at most. The longest stays well below a broker's `consumer_timeout`, and
#: spends one of a quorum queue's redeliveries in ten minutes.
FIRST_HOLD, LONGEST_HOLD = 5.0, 600.0
#: Seconds after its return within which a message that is still in the queue has come again.
RETURNS_WITHIN = 5.0


class UnreadableDelivery(Protocol):
    """A delivery whose properties cannot be decoded."""

    @property
    def message(self) -> Message:
        """What is known of it: queue, routing data, body."""
        ...

    @property
    def undecodable(self) -> str | None:
        """Why its properties cannot be decoded."""
        ...

    async def settle(self, settlement: Settlement) -> None:
        """Answer the broker."""
        ...


@dataclass(slots=True)
class Quarantine:
    """The unreadable messages of one consumer, over all its passes.

    Args:
        tell: Hears what is held and how to get it out, and None when nothing is any more.
    """

    tell: Callable[[str | None], None]
    pauses: Backoff = field(default_factory=lambda: Backoff(FIRST_HOLD, LONGEST_HOLD))
    told: str | None = None
    _held: list[UnreadableDelivery] = field(default_factory=list)
    _something: asyncio.Event = field(default_factory=asyncio.Event)
    _seen: int = 0

    @property
    def size(self) -> int:
        """Deliveries held now."""
        return len(self._held)

    def take(self, delivery: UnreadableDelivery) -> None:
        """Hold a delivery."""
        self._held.append(delivery)
        self._seen += 1
        text = explain_unreadable(delivery)
        if is_power_of_ten(self._seen, first=1):
            log.error("%s (delivery %d of such messages)", text, self._seen)
        if self.told is None:
            self.told = text
            self.tell(text)
        self._something.set()

    async def run(self) -> None:
        """Run beside a pass: give back what is held when its time has come; until cancelled.

        Raises:
            BrokerError: A delivery could not be given back.
        """
        self._held = []  # those of the last pass went back with its channel
        self._something.clear()
        while True:
            if self.told is not None and not await wait_until_set(self._something, RETURNS_WITHIN):
                self._clear()
            await self._something.wait()
            await asyncio.sleep(self.pauses.next())
            held, self._held = self._held, []
            self._something.clear()
            for delivery in held:
                await delivery.settle(Settlement.REQUEUE)

    def _clear(self) -> None:
        log.info("%s: it has not come again", self.told)
        self.told = None
        self._seen = 0
        self.pauses.reset()
        self.tell(None)


def explain_unreadable(delivery: UnreadableDelivery) -> str:
    """Which message it is, and how to get it out of the queue."""
    message = delivery.message
    return (
        f"queue {message.queue} holds a message whose header cannot be decoded: {delivery.undecodable} (exchange "
        f"{message.exchange!r}, routing key {message.routing_key!r}, {len(message.body)} bytes); the other messages go "
        "on, this one is kept. To take it out: switch the subscription off, run rabbitmqadmin get "
        f"queue={message.queue} ackmode=ack_requeue_false, and switch the subscription on again"
    )
