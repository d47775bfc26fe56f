"""One consumer at work, a subscription's or the fire queue's: the loop, its handler, its state, its row."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from airflow_provider_rmq.broker.consuming import Attachment, Handler, Source, consume
from airflow_provider_rmq.messages.backoff import Backoff
from airflow_provider_rmq.utils.metrics import incr
from airflow_provider_rmq.watcher.service.dag_gate import DagGate
from airflow_provider_rmq.watcher.states import (
    Attached,
    Attaching,
    AwaitingDag,
    ConsumerEvent,
    ConsumerState,
    Detached,
    QueueMissing,
    Registration,
    Row,
    Stopped,
    SubscriptionStatus,
    Unreadable,
    advance,
)
from airflow_provider_rmq.watcher.subscription import Consumed, Subscription
from airflow_provider_rmq.watcher.tunables import Metric

log = logging.getLogger(__name__)

#: Deliveries of one queue that are answered at the same time, and the prefetch the broker is asked for.
WINDOW = 20
#: The same for the fire queue, where the marker of a DAG that is not serialized yet keeps its place while it waits.
FIRE_WINDOW = 200
#: Seconds between a failed attempt to attach and the next: the first, and the longest.
FIRST_ATTACH_PAUSE, LONGEST_ATTACH_PAUSE = 0.5, 5.0


@dataclass(slots=True)
class SubscriptionTask:
    """Consumes until told to stop; observes its own loop."""

    subscription: Consumed
    source: Source
    handler: Handler[ConsumerEvent]
    gate: DagGate
    report: Callable[[Subscription, Row], None]
    window: int = WINDOW
    state: ConsumerState = field(default_factory=ConsumerState)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    _attachment: Attachment | None = None

    @property
    def holds_registration(self) -> bool:
        """Whether our own channel still holds the consumer tag."""
        return self._attachment is not None and self._attachment.holds_registration

    def hear(self, event: ConsumerEvent) -> None:
        """Take note of what the broker says about the registration."""
        self._advance(event)

    @asynccontextmanager
    async def attach(self) -> AsyncIterator[Attachment]:
        """Attach to the source, and remember how as long as it lasts."""
        async with self.source.attach() as attachment:
            self._attachment = attachment
            try:
                yield attachment
            finally:
                self._attachment = None

    async def run(self) -> None:
        """Wait for the DAG, then consume."""
        self._advance(Attaching())
        if await self._admitted():
            await consume(
                self,
                self.handler,
                self,
                stop=self.stop,
                window=self.window,
                pauses=Backoff(FIRST_ATTACH_PAUSE, LONGEST_ATTACH_PAUSE),
            )
        self._advance(Stopped())

    async def _admitted(self) -> bool:
        """Wait for the DAG; False when the stop comes first. The fire queue has the windows of many DAGs."""
        if not isinstance(self.subscription, Subscription):
            return not self.stop.is_set()
        admission = asyncio.ensure_future(
            self.gate.admit(self.subscription.key.dag_id, lambda reason: self._advance(AwaitingDag(reason)))
        )
        stopped = asyncio.ensure_future(self.stop.wait())
        try:
            await asyncio.wait({admission, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            admission.cancel()
            stopped.cancel()
        return not self.stop.is_set()

    def attaching(self) -> None:
        """A pass begins; a subscription in error keeps saying so until it is attached again."""
        if self.state.reported is not SubscriptionStatus.ERROR:
            self._advance(Attaching())

    def attached(self, tag: str, since: float) -> None:
        """The broker confirmed the consumer."""
        incr(Metric.CONSUMER_ATTACHED)
        log.info("%s: listening", self.subscription)
        self._advance(Attached(Registration(tag, since)))

    def detached(self, reason: str | None) -> None:
        """The pass has ended."""
        self._failed_with(reason)
        self._advance(Detached(reason))

    def queue_missing(self, reason: str) -> None:
        """The queue does not exist; the loop looks for it again."""
        self._failed_with(reason)
        self._advance(QueueMissing(reason))

    def answered(self, event: ConsumerEvent) -> None:
        """A delivery was settled."""
        self._advance(event)

    def unreadable(self, reason: str | None) -> None:
        """A message that cannot be decoded is held back, or none is any more."""
        self._advance(Unreadable(f"{self.subscription}: {reason}" if reason else None))

    def _failed_with(self, reason: str | None) -> None:
        """Log a reason when it is news; the row repeats it anyway."""
        if reason and reason != self.state.error:
            log.warning("%s: not consuming: %s", self.subscription, reason)

    def _advance(self, event: ConsumerEvent) -> None:
        self.state = advance(self.state, event)
        if isinstance(self.subscription, Subscription):
            self.report(self.subscription, self.state.row)
