"""The Subscriptions page as a value: rows in, lines, groups and badges out. Pure; knows no web framework.

`page_data` reads what goes in, `views` draws what comes out, `connections_block` lays out the part above the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from airflow_provider_rmq.compat import DagState
from airflow_provider_rmq.messages.run_ids import cooldown_run_id_prefix, immediate_run_id_prefix
from airflow_provider_rmq.watcher.rows.page_rows import SubscriptionRow
from airflow_provider_rmq.watcher.states import SubscriptionStatus
from airflow_provider_rmq.watcher.subscription import Source, SubscriptionKey
from airflow_provider_rmq.watcher.web.connections_block import ConnectionLine
from airflow_provider_rmq.watcher.web.shared_queues import SharedQueue, shared_queues

#: Lines on one page; a group is never torn apart, so a page may hold a few more.
LINES_A_PAGE = 50


class Severity(str, Enum):
    """How a badge or a notice is coloured."""

    INFO = "info"
    WARNING = "warning"
    DANGER = "danger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """A mark beside a subscription: two words, and a sentence for whoever asks."""

    text: str
    tooltip: str
    severity: Severity = Severity.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionLine:
    """One subscription as it is shown."""

    id: int
    key: SubscriptionKey
    source: Source
    enabled: bool
    status: str
    error: str | None
    filter_text: str
    cooldown: int
    ack_unmatched: bool
    badges: tuple[Badge, ...] = ()
    runs_prefix: str = ""

    @property
    def is_declared(self) -> bool:
        """Whether its DAG file owns it: the page changes nothing but `enabled` then."""
        return self.source is Source.DAG_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Subscriptions with one group key; a subscription of its own has none and stands alone."""

    key: str | None
    lines: tuple[SubscriptionLine, ...]
    shared: Badge | None = None

    @property
    def listening(self) -> int:
        """How many of the group's consumers listen."""
        return sum(line.enabled and line.status == SubscriptionStatus.LISTENING.value for line in self.lines)

    @property
    def all_enabled(self) -> bool:
        """Whether a click on the switch turns the group off."""
        return all(line.enabled for line in self.lines)

    @property
    def is_declared(self) -> bool:
        """Whether a DAG file owns one of its lines."""
        return any(line.is_declared for line in self.lines)

    @property
    def ack_unmatched(self) -> bool:
        """Whether one of its queues acknowledges what the filter rejects."""
        return any(line.ack_unmatched for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What the person who looks may do; what is not allowed is not drawn."""

    create: bool = False
    edit: bool = False
    delete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """Which part of the list is shown."""

    search: str = ""
    page: int = 1
    pages: int = 1
    matching: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionsPage:
    """All that the page shows; a block that could not be read carries a notice in its place."""

    groups: tuple[Group, ...] = ()
    connections: tuple[ConnectionLine, ...] = ()
    paging: Paging = field(default_factory=Paging)
    allowed: Allowed = field(default_factory=Allowed)
    subscriptions_notice: str | None = None
    connections_notice: str | None = None

    @property
    def offers_create(self) -> bool:
        """The form writes through the very table that a notice says cannot be read."""
        return self.allowed.create and self.subscriptions_notice is None


def select_groups(
    rows: Sequence[SubscriptionRow], search: str, page: int
) -> tuple[list[tuple[str | None, list[SubscriptionRow]]], Paging]:
    """The part of the rows that one page shows: ungrouped ones first, then groups by key, in the order of ids.

    Args:
        rows: All subscriptions.
        search: Words that must all occur in a row's DAG, queue, connection, source or status; empty shows all.
        page: From 1; what lies outside is moved to the nearest page there is.
    """
    words = search.lower().split()
    groups: dict[str | None, list[SubscriptionRow]] = {}
    alone: list[tuple[str | None, list[SubscriptionRow]]] = []
    for row in rows:
        if row.group_key is None:
            alone.append((None, [row]))
        else:
            groups.setdefault(row.group_key, []).append(row)
    units = [*alone, *sorted(groups.items(), key=lambda item: item[0] or "")]
    matching = [unit for unit in units if any(_matches(row, words) for row in unit[1])]
    pages = _paged(matching)
    number = min(max(page, 1), len(pages))
    paging = Paging(
        search=search,
        page=number,
        pages=len(pages),
        matching=sum(len(found) for _, found in matching),
        total=len(rows),
    )
    return pages[number - 1], paging


def _matches(row: SubscriptionRow, words: Iterable[str]) -> bool:
    text = " ".join((*row.key, row.source.value, row.status, "on" if row.enabled else "off", row.error or "")).lower()
    return all(word in text for word in words)


def _paged(
    units: Iterable[tuple[str | None, list[SubscriptionRow]]],
) -> list[list[tuple[str | None, list[SubscriptionRow]]]]:
    pages: list[list[tuple[str | None, list[SubscriptionRow]]]] = [[]]
    lines = 0
    for unit in units:
        if lines >= LINES_A_PAGE:
            pages.append([])
            lines = 0
        pages[-1].append(unit)
        lines += len(unit[1])
    return pages


def lay_out(
    shown: Iterable[tuple[str | None, list[SubscriptionRow]]],
    everything: Iterable[SubscriptionRow],
    dag_states: Mapping[str, DagState],
) -> tuple[Group, ...]:
    """Make groups with their lines and badges.

    Args:
        shown: The rows of one page, from `select_groups`.
        everything: All rows: a queue may be shared with one that is not shown.
        dag_states: What Airflow knows of the DAGs that are shown.
    """
    shared = shared_queues(everything)
    return tuple(
        Group(
            key=key,
            lines=tuple(_line(row, shared.get(row.id), dag_states.get(row.key.dag_id)) for row in rows),
            shared=_group_badge([shared[row.id] for row in rows if row.id in shared]),
        )
        for key, rows in shown
    )


def _line(row: SubscriptionRow, shared: SharedQueue | None, dag_state: DagState | None) -> SubscriptionLine:
    dag_id = row.key.dag_id
    badges = [*_dag_badges(dag_id, dag_state), *_missing_badge(row)]
    if shared is not None:
        badges.append(_shared_badge([shared]))
    return SubscriptionLine(
        id=row.id,
        key=row.key,
        source=row.source,
        enabled=row.enabled,
        status=row.status if row.enabled else SubscriptionStatus.DISCONNECTED.value,
        error=row.error if row.enabled else None,
        filter_text=json.dumps(row.filter_data, ensure_ascii=False) if row.filter_data else "",
        cooldown=row.cooldown,
        ack_unmatched=row.ack_unmatched,
        badges=tuple(badges),
        runs_prefix=cooldown_run_id_prefix(dag_id) if row.cooldown else immediate_run_id_prefix(row.key.queue_name),
    )


def _dag_badges(dag_id: str, state: DagState | None) -> list[Badge]:
    if state in (DagState.MISSING, DagState.INACTIVE):
        return [
            Badge(
                text="dag not found",
                tooltip=f"Airflow knows no active DAG {dag_id}: a matching message is acknowledged and starts nothing",
                severity=Severity.DANGER,
            )
        ]
    if state is DagState.PAUSED:
        return [
            Badge(
                text="dag paused",
                tooltip="a matching message is acknowledged and starts nothing; to keep messages in the queue, switch "
                "the subscription off instead",
            )
        ]
    return []


def _missing_badge(row: SubscriptionRow) -> list[Badge]:
    if not row.misses:
        return []
    return [
        Badge(
            text="not in its DAG file",
            tooltip=f"the last {row.misses} scan(s) of the DAG files did not find it; it is deleted with the fourth",
        )
    ]


def _shared_badge(shared: Sequence[SharedQueue]) -> Badge:
    deletes = any(item.deletes for item in shared)
    return Badge(
        text="shared queue — messages deleted" if deletes else "shared queue",
        tooltip="; ".join(item.sentence for item in shared),
        severity=Severity.DANGER if deletes else Severity.WARNING,
    )


def _group_badge(shared: Sequence[SharedQueue]) -> Badge | None:
    """On a group the badge names which of its queues are shared."""
    if not shared:
        return None
    badge = _shared_badge(shared)
    names = ", ".join(dict.fromkeys(item.queue_name for item in shared))
    ending = " — messages deleted" if any(item.deletes for item in shared) else ""
    return Badge(text=f"shared queue: {names}{ending}", tooltip=badge.tooltip, severity=badge.severity)
