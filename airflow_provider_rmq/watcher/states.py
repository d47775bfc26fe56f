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
| BrokerDenied(tag, reason) | keep | keep | keep | keep |
| BrokerConfirmed(tag) | keep | keep | keep | keep |
| Unreadable(reason) | keep | keep | keep | keep |
| Detached(reason) | ERROR with a reason, else CONNECTING | reason | none | keep |
| QueueMissing(reason) | ERROR | reason | none | 0 |
| Stopped | DISCONNECTED | none | none | 0 |

Delivered, StartFailed and DagNotReady say nothing without a registration: they belong to a pass that has ended.

`denial` holds what the broker last denied of the current registration: BrokerDenied sets and BrokerConfirmed clears it,
both only for the current tag, and it ends with the registration. `unreadable` names a message of the queue that cannot
be decoded: Unreadable sets it, and without a reason clears it; it outlives a registration, as the message does. While
either is set, a row that would say LISTENING says ERROR.
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


class ConnectionStatus(str, Enum):
    """`status` of a connection row: what the last liveness check says about one Airflow connection's consumers."""

    UNKNOWN = "unknown"
    CONNECTED = "connected"
    ERROR = "error"
    DEGRADED = "degraded"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionReport:
    """What one cycle has to say about one Airflow connection.

    Args:
        status: None keeps status and error as they are stored.
        error: Why it is not connected.
        consumers: Live consumers of this process.
        broker_consumers: Consumers the broker reports, None where there is no number.
    """

    status: ConnectionStatus | None = None
    error: str | None = None
    consumers: int = 0
    broker_consumers: int | None = None


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
class BrokerDenied:
    """The broker does not know a consumer tag."""

    tag: str
    reason: str


@dataclass(frozen=True, slots=True)
class BrokerConfirmed:
    """The broker knows a consumer tag."""

    tag: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message of the queue cannot be decoded and is held back; without a reason there is none any more."""

    reason: str | None


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
    Attaching
    | AwaitingDag
    | Attached
    | Delivered
    | StartFailed
    | DagNotReady
    | BrokerDenied
    | BrokerConfirmed
    | Unreadable
    | Detached
    | QueueMissing
    | Stopped
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
    denial: str | None = None
    unreadable: str | None = None

    @property
    def row(self) -> Row:
        """The status and error of the subscription's row."""
        trouble = self.denial or self.unreadable
        if self.reported is SubscriptionStatus.LISTENING and trouble:
            return Row(SubscriptionStatus.ERROR, trouble)
        return Row(self.reported, self.error)

    @property
    def is_candidate(self) -> bool:
        """Whether the liveness check can ask the broker about it."""
        return self.registration is not None


def advance(state: ConsumerState, event: ConsumerEvent) -> ConsumerState:  # noqa: C901, PLR0912 - the table above, row by row
    """The state after an event."""
    match event:
        case Attaching():
            return ConsumerState(unreadable=state.unreadable)
        case AwaitingDag(reason):
            return ConsumerState(error=reason)
        case Attached(registration):
            return ConsumerState(SubscriptionStatus.LISTENING, None, registration, unreadable=state.unreadable)
        case Delivered() | StartFailed() | DagNotReady() if state.registration is None:
            return state
        case Delivered():
            return replace(state, reported=SubscriptionStatus.LISTENING, error=None, not_ready_streak=0)
        case StartFailed(reason):
            return replace(state, reported=SubscriptionStatus.ERROR, error=reason, not_ready_streak=0)
        case DagNotReady(reason):
            return _not_ready(state, reason)
        case BrokerDenied(tag, reason):
            return replace(state, denial=reason) if _is_current(state, tag) else state
        case BrokerConfirmed(tag):
            return replace(state, denial=None) if _is_current(state, tag) else state
        case Unreadable(reason):
            return replace(state, unreadable=reason)
        case Detached(reason):
            reported = SubscriptionStatus.ERROR if reason else SubscriptionStatus.CONNECTING
            return replace(state, reported=reported, error=reason, registration=None, denial=None)
        case QueueMissing(reason):
            return ConsumerState(SubscriptionStatus.ERROR, reason)
        case Stopped():
            return ConsumerState(SubscriptionStatus.DISCONNECTED)


def _is_current(state: ConsumerState, tag: str) -> bool:
    return state.registration is not None and state.registration.tag == tag


def _not_ready(state: ConsumerState, reason: str) -> ConsumerState:
    streak = state.not_ready_streak + 1
    if streak < NOT_READY_LIMIT:
        return replace(state, reported=SubscriptionStatus.LISTENING, error=None, not_ready_streak=streak)
    return replace(state, reported=SubscriptionStatus.ERROR, error=reason, not_ready_streak=streak)
