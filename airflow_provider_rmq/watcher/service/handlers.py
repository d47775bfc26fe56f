"""What a message means for its subscription: message in, disposition out.

| what happened | settlement | event | pause |
|---|---|---|---|
| the filter rejects it | by policy | none | held 0.1 s before it goes back |
| the filter cannot be evaluated | REQUEUE | none | held 0.1 s before it goes back |
| run created, or exists already | ACK | Delivered | none |
| DAG paused, inactive or unknown | ACK | Delivered | none |
| not serialized yet | REQUEUE | DagNotReady | growing |
| anything else | REQUEUE | StartFailed | growing |

A paused DAG ends in an acknowledgement on purpose: requeueing would turn it into a store of redeliveries.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import Protocol

from airflow_provider_rmq.broker.consuming import Disposition
from airflow_provider_rmq.errors import describe
from airflow_provider_rmq.messages.backoff import Backoff
from airflow_provider_rmq.messages.judge import Judgement, MessageJudge
from airflow_provider_rmq.messages.message import Message
from airflow_provider_rmq.messages.run_ids import immediate_run_id
from airflow_provider_rmq.messages.settlement import FilterVerdict, Settlement
from airflow_provider_rmq.utils.metrics import incr
from airflow_provider_rmq.watcher.service.dag_runs import StartOutcome
from airflow_provider_rmq.watcher.states import ConsumerEvent, DagNotReady, Delivered, StartFailed
from airflow_provider_rmq.watcher.subscription import Subscription
from airflow_provider_rmq.watcher.tunables import Metric

log = logging.getLogger(__name__)

#: Seconds a rejected message is kept before it returns; at once it would come again within a millisecond.
RETURN_DELAY = 0.1
#: Not-serialized answers between two warnings.
NOT_READY_WARNING_EVERY = 10


class Starter(Protocol):
    """Creates DAG runs."""

    async def start(self, dag_id: str, run_id: str, conf: dict[str, object]) -> StartOutcome:
        """Create one and commit it."""
        ...


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(slots=True)
class GrowingPause:
    """One growing pause for failures that happen side by side.

    With a window of deliveries a single outage fails all of them at once; it is one failure and grows the pause once.
    """

    backoff: Backoff = field(default_factory=Backoff)
    until: float = 0.0

    def after_failure(self) -> float:
        """Seconds to pause."""
        now = asyncio.get_running_loop().time()
        if now >= self.until:
            self.until = now + self.backoff.next()
        return self.until - now

    def reset(self) -> None:
        """Something went well."""
        self.backoff.reset()


@dataclass(slots=True)
class ImmediateHandler:
    """Starts the subscription's DAG with each message."""

    subscription: Subscription
    starter: Starter
    judge: MessageJudge
    now: Callable[[], datetime] = _utc_now
    pause: GrowingPause = field(default_factory=GrowingPause)
    not_ready: int = 0

    async def __call__(self, message: Message) -> Disposition[ConsumerEvent]:
        """Decide about one message; never raises."""
        judgement = self.judge.judge(message)
        if judgement.verdict is not FilterVerdict.MATCH:
            return self._rejected(judgement)
        disposition = await self._start(message)
        return replace(disposition, settled=partial(self.judge.settled, judgement))

    def _rejected(self, judgement: Judgement) -> Disposition[ConsumerEvent]:
        def settled() -> None:
            missed = judgement.verdict is FilterVerdict.MISS
            incr(Metric.FILTER_MISSED if missed else Metric.FILTER_ERRORED)
            self.judge.settled(judgement)

        hold = RETURN_DELAY if judgement.settlement is Settlement.REQUEUE else 0.0
        return Disposition(settlement=judgement.settlement, hold=hold, settled=settled)

    async def _start(self, message: Message) -> Disposition[ConsumerEvent]:
        dag_id = self.subscription.key.dag_id
        run_id = immediate_run_id(message, self.now())
        try:
            outcome = await self.starter.start(dag_id, run_id, message.as_conf(subscription_id=self.subscription.id))
        except Exception as error:  # noqa: BLE001 - whatever Airflow or its database raises: the message goes back
            return self._failed(run_id, describe(error))
        if outcome is StartOutcome.NOT_SERIALIZED:
            return self._not_serialized(outcome)
        self.pause.reset()
        self.not_ready = 0
        self._report(outcome, run_id)
        return Disposition(settlement=Settlement.ACK, event=Delivered())

    def _report(self, outcome: StartOutcome, run_id: str) -> None:
        if outcome is StartOutcome.CREATED:
            incr(Metric.DAG_TRIGGERED)
            log.info("%s: DAG run %s created", self.subscription, run_id)
        elif outcome is StartOutcome.DUPLICATE:
            log.info("%s: DAG run %s exists already, the delivery is a duplicate", self.subscription, run_id)
        else:
            log.warning(
                "%s: DAG %s is not started and the message is dropped: %s",
                self.subscription,
                self.subscription.key.dag_id,
                outcome.value,
            )

    def _not_serialized(self, outcome: StartOutcome) -> Disposition[ConsumerEvent]:
        self.not_ready += 1
        level = logging.WARNING if self.not_ready % NOT_READY_WARNING_EVERY == 0 else logging.INFO
        reason = f"DAG {self.subscription.key.dag_id} cannot be started yet: {outcome.value}"
        log.log(level, "%s: %s (delivery %d in a row)", self.subscription, reason, self.not_ready)
        return Disposition(settlement=Settlement.REQUEUE, event=DagNotReady(reason), pause=self.pause.after_failure())

    def _failed(self, run_id: str, reason: str) -> Disposition[ConsumerEvent]:
        self.not_ready = 0
        pause = self.pause.after_failure()
        log.warning(
            "%s: DAG run %s could not be created, the message goes back to the queue, next attempt in %.0f s: %s",
            self.subscription,
            run_id,
            pause,
            reason,
        )
        return Disposition(settlement=Settlement.REQUEUE, event=StartFailed(reason), pause=pause)
