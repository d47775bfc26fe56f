"""What a sync does to the rows, as a pure function; `sync` reads them, asks this and writes.

A key missing from a listing is no event in itself: its row counts the miss and stays as it is.

| row | listing | fate |
|---|---|---|
| none | declares the key | inserted, enabled; a warning where this process deleted such a row before |
| of a DAG file | declares the key | kept with its id and switch; settings follow the file; counted misses are cleared |
| of the UI | declares the key | stays the UI's, and the declaration is refused with a complaint |
| of the UI | does not | untouched |
| of a DAG file, misses 0 to 2 | does not | one miss more |
| of a DAG file, misses 2, enabled, its DAG not active | does not | deleted: its consumer drops messages |
| of a DAG file, misses 3 or more | does not | deleted |

A disabled row has no consumer, and its deletion would lose the switch somebody turned off: it gets the whole grace.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_rmq.watcher.declarations import Complaint
from airflow_provider_rmq.watcher.subscription import Declaration, OnFilterError, Source, SubscriptionKey

#: Listings in a row without its key that a row survives.
MISSES_SURVIVED = 3


@dataclass(frozen=True, slots=True)
class Settings:
    """What a declaration says beside its key, in the form the row stores it."""

    filter_data: Mapping[str, Any]
    cooldown: int
    ack_unmatched: bool
    on_filter_error: str | None = None

    @classmethod
    def of(cls, declaration: Declaration) -> Settings:
        """The settings of a declaration; its filter as JSON gives it back, or a tuple would differ from its row."""
        policy = declaration.on_filter_error
        return cls(
            json.loads(json.dumps(declaration.filter_data)),
            declaration.cooldown,
            declaration.ack_unmatched,
            None if policy is OnFilterError.REQUEUE else policy.value,
        )

    def columns(self, dag_id: str) -> dict[str, Any]:
        """The columns of a row; the releases before this one store no cooldown as null."""
        return {
            "filter_data": dict(self.filter_data),
            "cooldown": self.cooldown or None,
            "group_key": dag_id if self.cooldown else None,
            "ack_unmatched": self.ack_unmatched,
            "on_filter_error": self.on_filter_error,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRow:
    """What the sync needs to know of a row."""

    id: int
    key: SubscriptionKey
    source: Source
    enabled: bool
    misses: int
    settings: Settings = field(default_factory=lambda: Settings({}, 0, ack_unmatched=False), hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPlan:
    """The difference between what is declared and what is stored.

    Args:
        inserts: Declarations without a row.
        changes: Rows whose settings follow their declaration.
        found_again: Rows whose misses are cleared.
        misses: Rows that count one miss more.
        deletions: Rows that go.
        foreign: Rows of the UI that hold a declared key, with the declaration that is refused.
    """

    inserts: tuple[Declaration, ...] = ()
    changes: tuple[tuple[StoredRow, Declaration], ...] = ()
    found_again: tuple[StoredRow, ...] = ()
    misses: tuple[StoredRow, ...] = ()
    deletions: tuple[StoredRow, ...] = ()
    foreign: tuple[tuple[StoredRow, Declaration], ...] = ()

    @property
    def refusals(self) -> tuple[Complaint, ...]:
        """The declarations that are refused, in words."""
        return tuple(
            Complaint(
                path=declaration.origin or "a DAG file",
                dag_id=row.key.dag_id,
                queue=row.key.queue_name,
                parameter="the key",
                reason=f"belongs to subscription {row.id}, which was created in the UI ({row.key.conn_id})",
                consequence="the UI's counts until it is deleted",
            )
            for row, declaration in self.foreign
        )


def plan_sync(
    rows: Iterable[StoredRow], declared: AbstractSet[Declaration], inactive_dag_ids: AbstractSet[str]
) -> SyncPlan:
    """Compare declarations with rows.

    Args:
        rows: All rows of the table.
        declared: A trusted listing.
        inactive_dag_ids: DAGs that Airflow does not hold active; of those with a row that is not declared.
    """
    wanted = {declaration.key: declaration for declaration in declared}
    stored = {row.key: row for row in rows}
    ours = [row for row in stored.values() if row.source is Source.DAG_FILE]
    absent = [row for row in ours if row.key not in wanted]
    due = {row.id for row in absent if row.misses >= _survived(row, inactive_dag_ids)}
    theirs = [row for row in stored.values() if row.source is Source.UI]
    return SyncPlan(
        inserts=tuple(sorted((wanted[key] for key in wanted.keys() - stored.keys()), key=lambda item: item.key)),
        changes=tuple(
            (row, wanted[row.key]) for row in ours if row.key in wanted and Settings.of(wanted[row.key]) != row.settings
        ),
        found_again=tuple(row for row in ours if row.key in wanted and row.misses),
        misses=tuple(row for row in absent if row.id not in due),
        deletions=tuple(row for row in absent if row.id in due),
        foreign=tuple((row, wanted[row.key]) for row in theirs if row.key in wanted),
    )


def _survived(row: StoredRow, inactive_dag_ids: AbstractSet[str]) -> int:
    """Misses this row survives."""
    return MISSES_SURVIVED - 1 if row.enabled and row.key.dag_id in inactive_dag_ids else MISSES_SURVIVED
