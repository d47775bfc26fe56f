"""The fire queue: each marker that arrives there ends a cooldown window and starts its DAG.

| what happened | settlement | event | pause |
|---|---|---|---|
| no routing key or no message id | ACK | Delivered | none |
| run created, or exists already | ACK | Delivered | none |
| DAG paused, inactive or unknown | ACK | Delivered | none |
| not serialized yet | REQUEUE | DagNotReady | waited out by the marker alone, growing for each DAG |
| the DAG's params refuse the conf | as in `starting` | StartFailed | as in `starting` |
| anything else | REQUEUE | StartFailed | growing |

One consumer serves the windows of all DAGs, so a DAG that is not serialized must not hold up the others: its marker
waits in the handler and then goes back. The rows of its subscriptions read `error` from the 25th time in a row on,
as that of a subscription without cooldown does.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from airflow_provider_rmq.broker.consuming import Disposition
from airflow_provider_rmq.broker.window import wait_until_set
from airflow_provider_rmq.errors import DagRunRefused, describe
from airflow_provider_rmq.messages.backoff import Backoff
from airflow_provider_rmq.messages.markers import cooldown_conf
from airflow_provider_rmq.messages.message import Message
from airflow_provider_rmq.messages.run_ids import cooldown_run_id
from airflow_provider_rmq.messages.settlement import Settlement
from airflow_provider_rmq.watcher.service.dag_runs import StartOutcome
from airflow_provider_rmq.watcher.service.handlers.starting import (
    GrowingPause,
    Refusals,
    Starter,
    report_end,
    report_failure,
    report_not_ready,
)
from airflow_provider_rmq.watcher.service.row_troubles import RowTroubles
from airflow_provider_rmq.watcher.service.run_rules import RunRules
from airflow_provider_rmq.watcher.states import NOT_READY_LIMIT, ConsumerEvent, DagNotReady, Delivered, StartFailed
from airflow_provider_rmq.watcher.subscription import FireConsumer

log = logging.getLogger(__name__)

#: What a row's trouble is filed under.
TROUBLE = "fire"


@dataclass(slots=True)
class FireHandler:
    """Starts the DAG whose window has ended."""

    consumer: FireConsumer
    starter: Starter
    troubles: RowTroubles
    stop: asyncio.Event
    rules: RunRules = field(default_factory=RunRules)
    refusals: Refusals = field(default_factory=Refusals)
    pause: GrowingPause = field(default_factory=GrowingPause)
    _waits: dict[str, Backoff] = field(default_factory=dict)

    async def __call__(self, message: Message) -> Disposition[ConsumerEvent]:
        """Decide about one marker; never raises."""
        dag_id = message.routing_key
        if not dag_id or not message.message_id:
            log.warning(
                "%s: a message without %s is dropped", self.consumer, "a message id" if dag_id else "a routing key"
            )
            return Disposition(settlement=Settlement.ACK, event=Delivered())
        run_id = cooldown_run_id(dag_id, message.message_id, self.rules.accepts)
        try:
            outcome = await self.starter.start(dag_id, run_id, cooldown_conf(message))
        except DagRunRefused as error:
            self.troubles.set(TROUBLE, dag_id, f"a cooldown window has ended, but {error}")
            return await self.refusals.disposition(self.consumer, run_id, message, error, self.stop)
        except Exception as error:  # noqa: BLE001 - whatever Airflow or its database raises: the marker goes back
            return self._failed(run_id, describe(error))
        if outcome is StartOutcome.NOT_SERIALIZED:
            return await self._not_serialized(dag_id, outcome)
        self.pause.reset()
        self._waits.pop(dag_id, None)
        self.troubles.clear(TROUBLE, dag_id)
        report_end(self.consumer, dag_id, run_id, outcome)
        return Disposition(settlement=Settlement.ACK, event=Delivered())

    async def _not_serialized(self, dag_id: str, outcome: StartOutcome) -> Disposition[ConsumerEvent]:
        waits = self._waits.setdefault(dag_id, Backoff())
        reason = f"DAG {dag_id} cannot be started yet: {outcome.value}"
        wait = waits.next()
        report_not_ready(self.consumer, reason, waits.failures)
        if waits.failures >= NOT_READY_LIMIT:
            self.troubles.set(TROUBLE, dag_id, f"a cooldown window has ended, but {reason}")
        await wait_until_set(self.stop, wait)
        return Disposition(settlement=Settlement.REQUEUE, event=DagNotReady(reason))

    def _failed(self, run_id: str, reason: str) -> Disposition[ConsumerEvent]:
        pause = self.pause.after_failure()
        report_failure(self.consumer, run_id, pause, reason)
        return Disposition(settlement=Settlement.REQUEUE, event=StartFailed(reason), pause=pause)
