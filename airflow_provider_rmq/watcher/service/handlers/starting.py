"""What handlers share: the rules for a rejected message, for starting a run, and the growing pause.

| what happened | settlement | event | pause |
|---|---|---|---|
| the filter rejects it | by policy | none | held 0.1 s before it goes back |
| the filter cannot be evaluated | by policy | none | held 0.1 s before it goes back |
| run created, or exists already | ACK | Delivered | none |
| DAG paused, inactive or unknown | ACK | Delivered | none |
| not serialized yet | REQUEUE | DagNotReady | growing |
| the DAG's params refuse the conf, turns 1 to 19 | REQUEUE | StartFailed | waited out by the message alone, growing |
| the same, turn 20 | DEAD_LETTER | StartFailed | none |
| anything else | REQUEUE | StartFailed | growing |

Params that refuse a conf are no outage: the others of the queue go on, and the message does not circle for ever.
A paused DAG ends in an acknowledgement on purpose: requeueing would turn it into a store of redeliveries.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Protocol

from airflow_provider_rmq.broker.consuming import Disposition
from airflow_provider_rmq.broker.window import wait_until_set
from airflow_provider_rmq.errors import DagRunRefused
from airflow_provider_rmq.messages.backoff import Backoff
from airflow_provider_rmq.messages.judge import Judgement, MessageJudge
from airflow_provider_rmq.messages.message import Message
from airflow_provider_rmq.messages.misses import is_power_of_ten
from airflow_provider_rmq.messages.settlement import FilterVerdict, Settlement
from airflow_provider_rmq.messages.turns import Turns, identity_of
from airflow_provider_rmq.utils.metrics import incr
from airflow_provider_rmq.watcher.service.dag_runs import StartOutcome
from airflow_provider_rmq.watcher.states import ConsumerEvent, StartFailed
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

    def rest(self) -> float:
        """Seconds of the pause that are left."""
        return max(0.0, self.until - asyncio.get_running_loop().time())

    def reset(self) -> None:
        """Something went well."""
        self.backoff.reset()


def rejected(judge: MessageJudge, judgement: Judgement) -> Disposition[ConsumerEvent]:
    """The disposition of a message that the filter does not let pass."""

    def settled() -> None:
        missed = judgement.verdict is FilterVerdict.MISS
        incr(Metric.FILTER_MISSED if missed else Metric.FILTER_ERRORED)
        judge.settled(judgement)

    hold = RETURN_DELAY if judgement.settlement is Settlement.REQUEUE else 0.0
    return Disposition(settlement=judgement.settlement, hold=hold, settled=settled)


@dataclass(slots=True)
class Refusals:
    """The turns of messages that the params of their DAG refuse."""

    turns: Turns = field(default_factory=Turns)

    async def disposition(
        self, subject: object, run_id: str, message: Message, error: DagRunRefused, stop: asyncio.Event
    ) -> Disposition[ConsumerEvent]:
        """Let the message wait for its next turn, or end its turns."""
        identity, reason = identity_of(message), str(error)
        if self.turns.is_last(identity):
            self.turns.end(identity)
            log.warning(
                "%s: DAG run %s was refused %d times; the message with %s is rejected without requeue, which leaves it "
                "to the queue's dead-letter exchange, if there is one: %s",
                subject,
                run_id,
                self.turns.most,
                identity,
                reason,
            )
            return Disposition(settlement=Settlement.DEAD_LETTER, event=StartFailed(reason))
        turn = self.turns.take(identity)
        pause = Backoff(failures=turn - 1).next()
        if is_power_of_ten(turn, first=1):
            report_failure(subject, run_id, pause, reason)
        await wait_until_set(stop, pause)
        return Disposition(settlement=Settlement.REQUEUE, event=StartFailed(reason))


def report_end(subject: object, dag_id: str, run_id: str, outcome: StartOutcome) -> None:
    """Log and count how a start ended for good."""
    if outcome is StartOutcome.CREATED:
        incr(Metric.DAG_TRIGGERED)
        log.info("%s: DAG run %s created", subject, run_id)
    elif outcome is StartOutcome.DUPLICATE:
        log.info("%s: DAG run %s exists already, the delivery is a duplicate", subject, run_id)
    else:
        log.warning("%s: DAG %s is not started and the message is dropped: %s", subject, dag_id, outcome.value)


def report_not_ready(subject: object, reason: str, count: int) -> None:
    """Log that a DAG has no serialized version yet, for the `count`th time in a row."""
    level = logging.WARNING if count % NOT_READY_WARNING_EVERY == 0 else logging.INFO
    log.log(level, "%s: %s (delivery %d in a row)", subject, reason, count)


def report_failure(subject: object, run_id: str, pause: float, reason: str) -> None:
    """Log that a run could not be created."""
    log.warning(
        "%s: DAG run %s could not be created, the message goes back to the queue, next attempt in %.0f s: %s",
        subject,
        run_id,
        pause,
        reason,
    )
