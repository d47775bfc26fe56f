"""Is what we believe to consume really consuming? One pure judgement for each Airflow connection and cycle.

`recovery` asks (through `broker.probes`), has `judge_connection` decide, and carries the verdict out. The rules:

| what the answer says | verdict |
|---|---|
| the broker lists the tag | confirmed |
| the broker answers without a list (passive declare) | every consumer asked about is confirmed, no count |
| our own channel has lost the tag | denied, whatever the broker says |
| the broker does not list the tag | denied |
| the same, of a registration younger than the answer minus the broker's reporting lag | nothing |
| nothing comes back, or the connection is gone (`Silent`) | every consumer asked about is denied |
| the management API has no usable answer (`NoData`) | nothing: no counter moves, what is stored stays |

A denial counts for its tag: a consumer that has registered anew meanwhile starts at none. One denial shows in the rows,
`DENIALS_UNTIL_CONDEMNED` in a row condemn: those consumers are restarted and the connection they share is opened again,
at most once in `CYCLES_BETWEEN_RECREATIONS` cycles. A connection on which no consumer is registered for
`IDLE_CYCLES_UNTIL_ASKED` cycles is asked itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_rmq.watcher.states import ConnectionStatus, Registration
from airflow_provider_rmq.watcher.subscription import ConsumerKey

#: Negative answers in a row about one consumer tag that condemn it.
DENIALS_UNTIL_CONDEMNED = 2
#: Cycles from one recreation of a connection to the next.
CYCLES_BETWEEN_RECREATIONS = 5
#: Cycles without a registered consumer after which the connection itself is asked.
IDLE_CYCLES_UNTIL_ASKED = 2
#: Failures of the management API in a row from which on the passive way answers.
NO_DATA_UNTIL_PASSIVE = 2
#: Seconds by which the management API's list may lag behind: two of RabbitMQ's intervals for statistics.
REPORTING_LAG = 10.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A registered consumer at the moment of the question.

    Args:
        key: The consumer.
        registration: Its registration then.
        is_lost_here: Whether its own channel does not hold the tag any more.
    """

    key: ConsumerKey
    registration: Registration
    is_lost_here: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What one Airflow connection's consumers look like at the moment of the question.

    Args:
        asked: Those that are registered.
        live: Consumers that run, registered or not.
        reason: Why one that is not registered is not, where it says so.
        connect_failure: How the last attempt to connect failed, None after a success.
    """

    asked: tuple[Asked, ...] = ()
    live: int = 0
    reason: str | None = None
    connect_failure: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """The broker's list of consumers.

    Args:
        tags: All consumer tags of the vhost.
        consumers: How many consumers the queues asked about have.
        taken_at: When the question was sent, on the clock of `Registration.since`.
    """

    tags: frozenset[str]
    consumers: int
    taken_at: float


@dataclass(frozen=True, slots=True)
class Answered:
    """The connection answered a call; who consumes is not told.

    Args:
        is_instead_of_list: The management API was asked first and failed.
    """

    is_instead_of_list: bool = False


@dataclass(frozen=True, slots=True)
class Silent:
    """The connection did not answer, or is gone."""

    reason: str
    is_instead_of_list: bool = False


@dataclass(frozen=True, slots=True)
class NoData:
    """Nobody could be asked; says nothing about the broker."""

    reason: str


ProbeAnswer = Seen | Answered | Silent | NoData


@dataclass(frozen=True, slots=True, kw_only=True)
class Strikes:
    """What a connection's earlier cycles leave behind.

    Args:
        denials: Negative answers in a row, by consumer tag.
        no_data: Cycles in a row in which the management API gave nothing usable.
        idle: Cycles in a row in which consumers ran and none was registered.
        cooling: Cycles to come in which the connection is not recreated again.
    """

    denials: Mapping[str, int] = field(default_factory=dict)
    no_data: int = 0
    idle: int = 0
    cooling: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionVerdict:
    """What to store about a connection, and what to do.

    Args:
        status: None keeps what is stored.
        reason: Why it is not connected.
        broker_consumers: None where nobody told a number.
        denied: Consumers the broker denies, with the reason for their row.
        confirmed: Consumers the broker confirms.
        restart: Condemned consumers; empty while a recreation is held back.
        recreate: Whether the connection is opened again.
    """

    status: ConnectionStatus | None = None
    reason: str | None = None
    broker_consumers: int | None = None
    denied: Mapping[Asked, str] = field(default_factory=dict)
    confirmed: frozenset[Asked] = frozenset()
    restart: frozenset[ConsumerKey] = frozenset()
    recreate: bool = False


def is_idle(question: Question) -> bool:
    """Whether consumers run and none of them is registered."""
    return question.live > 0 and not question.asked


def must_ask_connection(question: Question, strikes: Strikes) -> bool:
    """Whether this cycle asks the connection itself, because nobody on it has been registered for long."""
    return is_idle(question) and strikes.idle + 1 >= IDLE_CYCLES_UNTIL_ASKED


def judge_connection(
    question: Question, answer: ProbeAnswer, strikes: Strikes, limit: int = CYCLES_BETWEEN_RECREATIONS
) -> tuple[ConnectionVerdict, Strikes]:
    """Judge one connection by one answer.

    Args:
        question: What was asked about.
        answer: What came back.
        strikes: What earlier cycles left behind.
        limit: Cycles from one recreation to the next.
    """
    cooled = replace(strikes, cooling=max(0, strikes.cooling - 1), idle=strikes.idle + 1 if is_idle(question) else 0)
    if not question.live:
        reason = question.connect_failure or "no consumer of this connection runs"
        return ConnectionVerdict(status=ConnectionStatus.ERROR, reason=reason), cooled
    if not question.asked:
        return _judge_idle(question, answer, cooled, limit)
    without_list = isinstance(answer, NoData) or (not isinstance(answer, Seen) and answer.is_instead_of_list)
    counted = replace(cooled, no_data=strikes.no_data + 1 if without_list else 0)
    if isinstance(answer, NoData):
        return _with_lost(question.asked, counted, limit)
    return _judge_consumers(question.asked, answer, counted, limit)


def _judge_idle(
    question: Question, answer: ProbeAnswer, strikes: Strikes, limit: int
) -> tuple[ConnectionVerdict, Strikes]:
    """Consumers run, none is registered: only the connection can be asked, and not at once."""
    strikes = replace(strikes, denials={})
    if strikes.idle >= IDLE_CYCLES_UNTIL_ASKED:
        if isinstance(answer, Silent):
            return _recreation(f"the connection does not answer: {answer.reason}", strikes, limit)
        if isinstance(answer, Answered):
            reason = question.reason or "its consumers do not attach"
            text = f"the connection answers, the fault is behind it: {reason}"
            return ConnectionVerdict(status=ConnectionStatus.ERROR, reason=text), strikes
    if question.connect_failure:
        return ConnectionVerdict(status=ConnectionStatus.ERROR, reason=question.connect_failure), strikes
    return ConnectionVerdict(), strikes


def _with_lost(asked: Iterable[Asked], strikes: Strikes, limit: int) -> tuple[ConnectionVerdict, Strikes]:
    """Nobody could be asked, but what our own channels have lost is known all the same."""
    lost = {item: "its channel does not hold the consumer any more" for item in asked if item.is_lost_here}
    if not lost:
        return ConnectionVerdict(), strikes
    others = {tag: count for tag, count in strikes.denials.items() if tag not in {it.registration.tag for it in lost}}
    verdict, left = _judge_denials(lost, frozenset(), None, strikes, limit)
    return verdict, replace(left, denials={**others, **left.denials})


def _judge_consumers(
    asked: Iterable[Asked], answer: Seen | Answered | Silent, strikes: Strikes, limit: int
) -> tuple[ConnectionVerdict, Strikes]:
    denied: dict[Asked, str] = {}
    confirmed: set[Asked] = set()
    for item in asked:
        if item.is_lost_here:
            denied[item] = "its channel does not hold the consumer any more"
        elif isinstance(answer, Silent):
            denied[item] = f"the connection does not answer: {answer.reason}"
        elif isinstance(answer, Answered) or item.registration.tag in answer.tags:
            confirmed.add(item)
        elif item.registration.since < answer.taken_at - REPORTING_LAG:
            denied[item] = f"the broker does not list consumer {item.registration.tag}"
    count = answer.consumers if isinstance(answer, Seen) else None
    return _judge_denials(denied, frozenset(confirmed), count, strikes, limit)


def _judge_denials(
    denied: Mapping[Asked, str], confirmed: frozenset[Asked], count: int | None, strikes: Strikes, limit: int
) -> tuple[ConnectionVerdict, Strikes]:
    denials = {item.registration.tag: strikes.denials.get(item.registration.tag, 0) + 1 for item in denied}
    strikes = replace(strikes, denials=denials)
    if not denied:
        status = ConnectionStatus.CONNECTED if confirmed else None
        return ConnectionVerdict(status=status, broker_consumers=count, confirmed=confirmed), strikes
    numbered = {
        item: f"{text} (check {denials[item.registration.tag]} of {DENIALS_UNTIL_CONDEMNED})"
        for item, text in denied.items()
    }
    verdict = ConnectionVerdict(
        status=ConnectionStatus.ERROR,
        reason=_summary(numbered),
        broker_consumers=count,
        denied=numbered,
        confirmed=confirmed,
    )
    condemned = {item for item in denied if denials[item.registration.tag] >= DENIALS_UNTIL_CONDEMNED}
    if not condemned:
        return verdict, strikes
    recreation, strikes = _recreation(_summary(numbered), strikes, limit)
    if recreation.recreate:
        gone = {item.registration.tag for item in condemned}
        strikes = replace(strikes, denials={tag: number for tag, number in denials.items() if tag not in gone})
    return (
        replace(
            verdict,
            status=recreation.status,
            reason=recreation.reason,
            restart=frozenset(item.key for item in condemned) if recreation.recreate else frozenset(),
            recreate=recreation.recreate,
        ),
        strikes,
    )


def _recreation(reason: str, strikes: Strikes, limit: int) -> tuple[ConnectionVerdict, Strikes]:
    """Open the connection again, unless that was done too recently."""
    if strikes.cooling > 0:
        text = f"{reason}; the connection was opened again recently and is left for {strikes.cooling} more cycles"
        return ConnectionVerdict(status=ConnectionStatus.DEGRADED, reason=text), strikes
    return (
        ConnectionVerdict(status=ConnectionStatus.ERROR, reason=reason, recreate=True),
        replace(strikes, cooling=limit, idle=0),
    )


def _summary(denied: Mapping[Asked, str]) -> str:
    """One line for the connection's row: the first reason, and how many share the fate."""
    first = min(denied, key=lambda item: (item.key.queue_name, item.registration.tag))
    more = f", and {len(denied) - 1} more" if len(denied) > 1 else ""
    return f"queue {first.key.queue_name}: {denied[first]}{more}"
