"""Compares what should be consumed with what is, and carries out the difference: stop first, start later."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_rmq.utils.metrics import incr
from airflow_provider_rmq.watcher.service.subscription_task import SubscriptionTask
from airflow_provider_rmq.watcher.service.tasks import create_guarded_task
from airflow_provider_rmq.watcher.subscription import Consumed, ConsumerKey, Subscription
from airflow_provider_rmq.watcher.tunables import CONSUMER_STOP_TIMEOUT, Metric

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
            work = self.make(subscription)
            task = create_guarded_task(work.run(), name=str(subscription))
            self._running[subscription.consumer_key] = _Running(work, task)

    def live(self, conn_ids: Iterable[str]) -> dict[str, int]:
        """Live consumers by conn_id, for every conn_id asked for."""
        alive = Counter(key.conn_id for key, item in self._running.items() if not item.task.done())
        return {conn_id: alive[conn_id] for conn_id in conn_ids}

    async def stop(self) -> None:
        """Stop all consumers; what they are answering is finished within `CONSUMER_STOP_TIMEOUT`."""
        await self._stop(tuple(self._running))

    async def _stop(self, keys: Iterable[ConsumerKey]) -> None:
        stopping = [self._running.pop(key) for key in keys]
        if not stopping:
            return
        for item in stopping:
            item.work.stop.set()
        tasks = {item.task for item in stopping}
        _, late = await asyncio.wait(tasks, timeout=CONSUMER_STOP_TIMEOUT)
        for task in late:
            log.warning("%s did not stop within %g s and is cancelled", task.get_name(), CONSUMER_STOP_TIMEOUT)
            task.cancel()
        for item in stopping:
            if isinstance(item.work.subscription, Subscription):
                self.forget(item.work.subscription.id)
