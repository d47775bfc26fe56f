"""What a consumer is doing, as a state machine; the database row is derived from the state and never set by hand.

`advance` is total and pure:

| event | reported | error | registration | not-ready streak |
|---|---|---|---|---|
| Attaching | CONNECTING | none | none | 0 |
| AwaitingDag(reason) | CONNECTING | reason | none | 0 |
| Attached(registration) | LISTENING | none | set | 0 |
| Delivered | LISTENING | none | keep | 0 |
| StartFailed(reason) | ERROR | reason | keep | 0 |
| DagNotReady(reason) | LISTENING, ERROR from the 25th on | none, then reason | keep | +1 |
| Detached(reason) | ERROR with a reason, else CONNECTING | reason | none | keep |
| QueueMissing(reason) | ERROR | reason | none | 0 |
| Stopped | DISCONNECTED | none | none | 0 |

Delivered, StartFailed and DagNotReady say nothing without a registration: they belong to a pass that has ended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple


class SubscriptionStatus(str, Enum):
    """`consumer_status` of a subscription row."""

    CONNECTING = "connecting"
    LISTENING = "listening"
    ERROR = "error"
    DISCONNECTED = "disconnected"


#: "Not serialized yet" answers in a row that are taken for a warm-up; one more is a failure of its own.
NOT_READY_LIMIT = 25


@dataclass(frozen=True, slots=True)
class Registration:
    """One registration of a consumer at the broker; ends with its channel."""

    tag: str
    since: float


@dataclass(frozen=True, slots=True)
class Attaching:
    """A pass begins."""


@dataclass(frozen=True, slots=True)
class AwaitingDag:
    """The consumer waits until Airflow knows its DAG; nothing is attached."""

    reason: str


@dataclass(frozen=True, slots=True)
class Attached:
    """The broker confirmed the consumer."""

    registration: Registration


@dataclass(frozen=True, slots=True)
class Delivered:
    """A delivery was answered for good: run created, duplicate, or dropped on purpose."""


@dataclass(frozen=True, slots=True)
class StartFailed:
    """A DAG run could not be created."""

    reason: str


@dataclass(frozen=True, slots=True)
class DagNotReady:
    """Airflow holds no serialized version of the DAG yet."""

    reason: str


@dataclass(frozen=True, slots=True)
class Detached:
    """The pass has ended; without a reason it ended in order."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class QueueMissing:
    """The queue does not exist."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The consumer was told to stop."""


ConsumerEvent = (
    Attaching | AwaitingDag | Attached | Delivered | StartFailed | DagNotReady | Detached | QueueMissing | Stopped
)


class Row(NamedTuple):
    """What the database should say of a consumer."""

    status: SubscriptionStatus
    error: str | None


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """What one consumer did last."""

    reported: SubscriptionStatus = SubscriptionStatus.CONNECTING
    error: str | None = None
    registration: Registration | None = None
    not_ready_streak: int = 0

    @property
    def row(self) -> Row:
        """The status and error of the subscription's row."""
        return Row(self.reported, self.error)


def advance(state: ConsumerState, event: ConsumerEvent) -> ConsumerState:  # noqa: C901 - the table above, row by row
    """The state after an event."""
    match event:
        case Attaching():
            return ConsumerState()
        case AwaitingDag(reason):
            return ConsumerState(error=reason)
        case Attached(registration):
            return ConsumerState(SubscriptionStatus.LISTENING, None, registration)
        case Delivered() | StartFailed() | DagNotReady() if state.registration is None:
            return state
        case Delivered():
            return ConsumerState(SubscriptionStatus.LISTENING, None, state.registration)
        case StartFailed(reason):
            return ConsumerState(SubscriptionStatus.ERROR, reason, state.registration)
        case DagNotReady(reason):
            return _not_ready(state, reason)
        case Detached(reason):
            reported = SubscriptionStatus.ERROR if reason else SubscriptionStatus.CONNECTING
            return replace(state, reported=reported, error=reason, registration=None)
        case QueueMissing(reason):
            return ConsumerState(SubscriptionStatus.ERROR, reason)
        case Stopped():
            return ConsumerState(SubscriptionStatus.DISCONNECTED)


def _not_ready(state: ConsumerState, reason: str) -> ConsumerState:
    streak = state.not_ready_streak + 1
    if streak < NOT_READY_LIMIT:
        return ConsumerState(SubscriptionStatus.LISTENING, None, state.registration, streak)
    return ConsumerState(SubscriptionStatus.ERROR, reason, state.registration, streak)
