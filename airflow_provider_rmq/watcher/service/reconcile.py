"""Compares what should be consumed with what is, and carries out the difference: stop first, start later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_rmq.utils.metrics import incr
from airflow_provider_rmq.watcher.service.liveness import Asked, ConnectionVerdict, Question
from airflow_provider_rmq.watcher.service.subscription_task import SubscriptionTask
from airflow_provider_rmq.watcher.service.tasks import create_guarded_task
from airflow_provider_rmq.watcher.states import BrokerConfirmed, BrokerDenied, ConsumerEvent
from airflow_provider_rmq.watcher.subscription import Consumed, ConsumerKey, Subscription
from airflow_provider_rmq.watcher.tunables import ABANDON_AFTER, CONSUMER_STOP_TIMEOUT, Metric

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilePlan:
    """What to stop and what to start."""

    stop: tuple[ConsumerKey, ...]
    start: tuple[Consumed, ...]
    ended: tuple[ConsumerKey, ...]


def plan_reconcile(desired: Iterable[Consumed], running: Mapping[ConsumerKey, Consumed | None]) -> ReconcilePlan:
    """Compare.

    Args:
        desired: All enabled subscriptions, and the fire queue where one has a cooldown.
        running: What each consumer of this process was started for; None for one that has ended.
    """
    wanted = {subscription.consumer_key: subscription for subscription in desired}
    return ReconcilePlan(
        stop=tuple(key for key, now in running.items() if now is not None and wanted.get(key) != now),
        start=tuple(subscription for key, subscription in wanted.items() if running.get(key) != subscription),
        ended=tuple(key for key, now in running.items() if now is None),
    )


@dataclass(slots=True)
class _Running:
    work: SubscriptionTask
    task: asyncio.Task[None]


@dataclass(slots=True)
class ConsumerSet:
    """The consumers of this process."""

    make: Callable[[Consumed], SubscriptionTask]
    forget: Callable[[int], None]
    _running: dict[ConsumerKey, _Running] = field(default_factory=dict)

    async def reconcile(self, desired: Iterable[Consumed]) -> None:
        """Make what runs what is desired."""
        plan = plan_reconcile(
            desired,
            {key: None if item.task.done() else item.work.subscription for key, item in self._running.items()},
        )
        for key in plan.ended:
            del self._running[key]
            incr(Metric.CONSUMER_RESTARTED)
            log.warning("the consumer of queue %s (%s) had ended and is started again", key.queue_name, key.conn_id)
        await self._stop(plan.stop)
        for subscription in plan.start:
            self._start(subscription)

    def question(self, conn_id: str) -> Question:
        """What runs on a connection, for the liveness check."""
        live = {
            key: item.work for key, item in self._running.items() if key.conn_id == conn_id and not item.task.done()
        }
        reasons = (work.state.error for work in live.values() if not work.state.is_candidate)
        return Question(
            asked=tuple(
                Asked(key, work.state.registration, is_lost_here=not work.holds_registration)
                for key, work in live.items()
                if work.state.registration is not None
            ),
            live=len(live),
            reason=next((reason for reason in reasons if reason), None),
        )

    def tell(self, verdict: ConnectionVerdict) -> None:
        """Hand the broker's word on to the consumers it is about."""
        for asked in verdict.confirmed:
            self._tell(asked.key, BrokerConfirmed(asked.registration.tag))
        for asked, reason in verdict.denied.items():
            self._tell(asked.key, BrokerDenied(asked.registration.tag, reason))

    def _tell(self, key: ConsumerKey, event: ConsumerEvent) -> None:
        if (item := self._running.get(key)) is not None:
            item.work.hear(event)

    async def restart(self, keys: Iterable[ConsumerKey]) -> None:
        """Cancel these consumers and start them again; what they were answering goes back to its queue."""
        condemned = {key: self._running[key] for key in keys if key in self._running}
        for item in condemned.values():
            item.task.cancel()
        await self._await_end([item.task for item in condemned.values()])
        for key, item in condemned.items():
            if self._running.get(key) is item:
                incr(Metric.CONSUMER_RESTARTED)
                self._start(item.work.subscription)

    async def stop(self) -> None:
        """Stop all consumers; what they are answering is finished within `CONSUMER_STOP_TIMEOUT`."""
        await self._stop(tuple(self._running))

    def _start(self, subscription: Consumed) -> None:
        work = self.make(subscription)
        task = create_guarded_task(work.run(), name=str(subscription))
        self._running[subscription.consumer_key] = _Running(work, task)

    async def _stop(self, keys: Iterable[ConsumerKey]) -> None:
        stopping = [self._running.pop(key) for key in keys]
        if not stopping:
            return
        for item in stopping:
            item.work.stop.set()
        tasks = {item.task for item in stopping}
        _, late = await asyncio.wait(tasks, timeout=CONSUMER_STOP_TIMEOUT - ABANDON_AFTER)
        for task in late:
            log.warning("%s did not stop in time and is cancelled", task.get_name())
            task.cancel()
        await self._await_end(late)
        for item in stopping:
            if isinstance(item.work.subscription, Subscription):
                self.forget(item.work.subscription.id)

    async def _await_end(self, cancelled: Iterable[asyncio.Task[None]]) -> None:
        """Wait a moment for cancelled tasks; one that does not end is left behind and counted."""
        tasks = set(cancelled)
        if not tasks:
            return
        _, stuck = await asyncio.wait(tasks, timeout=ABANDON_AFTER)
        for task in stuck:
            incr(Metric.TASKS_ABANDONED)
            log.error(
                "%s did not end within %g s of its cancellation and is left behind", task.get_name(), ABANDON_AFTER
            )
