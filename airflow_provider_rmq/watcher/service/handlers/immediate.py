"""A subscription without cooldown: each message starts its DAG. The rules are the table in `starting`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial

from airflow_provider_rmq.broker.consuming import Disposition
from airflow_provider_rmq.errors import DagRunRefused, describe
from airflow_provider_rmq.messages.judge import MessageJudge
from airflow_provider_rmq.messages.message import Message
from airflow_provider_rmq.messages.run_ids import immediate_run_id
from airflow_provider_rmq.messages.settlement import FilterVerdict, Settlement
from airflow_provider_rmq.watcher.service.dag_runs import StartOutcome
from airflow_provider_rmq.watcher.service.handlers.starting import (
    GrowingPause,
    Refusals,
    Starter,
    rejected,
    report_end,
    report_failure,
    report_not_ready,
)
from airflow_provider_rmq.watcher.service.run_rules import RunRules
from airflow_provider_rmq.watcher.states import ConsumerEvent, DagNotReady, Delivered, StartFailed
from airflow_provider_rmq.watcher.subscription import Subscription


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(slots=True)
class ImmediateHandler:
    """Starts the subscription's DAG with each message."""

    subscription: Subscription
    starter: Starter
    judge: MessageJudge
    now: Callable[[], datetime] = _utc_now
    rules: RunRules = field(default_factory=RunRules)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    refusals: Refusals = field(default_factory=Refusals)
    pause: GrowingPause = field(default_factory=GrowingPause)
    not_ready: int = 0

    async def __call__(self, message: Message) -> Disposition[ConsumerEvent]:
        """Decide about one message; never raises."""
        judgement = self.judge.judge(message)
        if judgement.verdict is not FilterVerdict.MATCH:
            return rejected(self.judge, judgement)
        disposition = await self._start(message)
        return replace(disposition, settled=partial(self.judge.settled, judgement))

    async def _start(self, message: Message) -> Disposition[ConsumerEvent]:
        dag_id = self.subscription.key.dag_id
        run_id = immediate_run_id(message, self.now(), self.rules.accepts)
        try:
            conf = message.as_conf(subscription_id=self.subscription.id, bounds=self.rules.bounds)
            outcome = await self.starter.start(dag_id, run_id, conf)
        except DagRunRefused as error:
            return await self.refusals.disposition(self.subscription, run_id, message, error, self.stop)
        except Exception as error:  # noqa: BLE001 - whatever Airflow or its database raises: the message goes back
            return self._failed(run_id, describe(error))
        if outcome is StartOutcome.NOT_SERIALIZED:
            return self._not_serialized(outcome)
        self.pause.reset()
        self.not_ready = 0
        report_end(self.subscription, dag_id, run_id, outcome)
        return Disposition(settlement=Settlement.ACK, event=Delivered())

    def _not_serialized(self, outcome: StartOutcome) -> Disposition[ConsumerEvent]:
        self.not_ready += 1
        reason = f"DAG {self.subscription.key.dag_id} cannot be started yet: {outcome.value}"
        report_not_ready(self.subscription, reason, self.not_ready)
        return Disposition(settlement=Settlement.REQUEUE, event=DagNotReady(reason), pause=self.pause.after_failure())

    def _failed(self, run_id: str, reason: str) -> Disposition[ConsumerEvent]:
        self.not_ready = 0
        pause = self.pause.after_failure()
        report_failure(self.subscription, run_id, pause, reason)
        return Disposition(settlement=Settlement.REQUEUE, event=StartFailed(reason), pause=pause)
