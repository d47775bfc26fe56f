"""From declarations to rows: `plan_sync` decides without touching anything, `apply_plan` carries it out.

A key missing from a listing is no event in itself: its row counts the miss and stays. Three misses are survived, the
fourth deletes the row; an enabled row of a DAG that Airflow no longer holds active goes with the third. Every write
that the counter makes is matched on the value the row was read with, because another Scheduler may count too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import delete, select, update

from airflow_provider_rmq import compat
from airflow_provider_rmq.watcher.models import RMQSubscription
from airflow_provider_rmq.watcher.subscription import Declaration, Source, SubscriptionKey

log = logging.getLogger(__name__)

#: Listings in a row without its key that a row survives.
MISSES_SURVIVED = 3


@dataclass(frozen=True, slots=True)
class Settings:
    """What a declaration says beside its key, in the form the row stores it."""

    filter_data: Mapping[str, Any]
    cooldown: int
    ack_unmatched: bool

    @classmethod
    def of(cls, declaration: Declaration) -> Settings:
        """The settings of a declaration."""
        return cls(declaration.filter_data, declaration.cooldown, declaration.ack_unmatched)

    def columns(self, dag_id: str) -> dict[str, Any]:
        """The columns of a row; the releases before this one store no cooldown as null."""
        return {
            "filter_data": dict(self.filter_data),
            "cooldown": self.cooldown or None,
            "group_key": dag_id if self.cooldown else None,
            "ack_unmatched": self.ack_unmatched,
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
    """The difference between what is declared and what is stored."""

    inserts: tuple[Declaration, ...] = ()
    changes: tuple[tuple[StoredRow, Declaration], ...] = ()
    found_again: tuple[StoredRow, ...] = ()
    misses: tuple[StoredRow, ...] = ()
    deletions: tuple[StoredRow, ...] = ()
    foreign: tuple[StoredRow, ...] = ()


def plan_sync(
    rows: Iterable[StoredRow], declared: AbstractSet[Declaration], inactive_dag_ids: AbstractSet[str]
) -> SyncPlan:
    """Compare declarations with rows.

    Args:
        rows: All rows of the table.
        declared: A trusted listing.
        inactive_dag_ids: DAGs that Airflow does not hold active.
    """
    wanted = {declaration.key: declaration for declaration in declared}
    stored = {row.key: row for row in rows}
    ours = [row for row in stored.values() if row.source is Source.DAG_FILE]
    absent = [row for row in ours if row.key not in wanted]
    due = {row.id for row in absent if row.misses >= _survived(row, inactive_dag_ids)}
    return SyncPlan(
        inserts=tuple(sorted((wanted[key] for key in wanted.keys() - stored.keys()), key=lambda item: item.key)),
        changes=tuple(
            (row, wanted[row.key]) for row in ours if row.key in wanted and Settings.of(wanted[row.key]) != row.settings
        ),
        found_again=tuple(row for row in ours if row.key in wanted and row.misses),
        misses=tuple(row for row in absent if row.id not in due),
        deletions=tuple(row for row in absent if row.id in due),
        foreign=tuple(row for row in stored.values() if row.source is Source.UI and row.key in wanted),
    )


def _survived(row: StoredRow, inactive_dag_ids: AbstractSet[str]) -> int:
    """Misses this row survives.

    A consumer of an inactive DAG acknowledges messages and starts nothing, so it costs more than its row. A disabled
    row has no consumer, and deleting it early would lose the flag its operator cleared.
    """
    return MISSES_SURVIVED - 1 if row.enabled and row.key.dag_id in inactive_dag_ids else MISSES_SURVIVED


def sync_declarations(session: Any, declared: AbstractSet[Declaration]) -> SyncPlan:
    """Read the rows, plan, apply and commit. Blocking."""
    rows = _read_rows(session)
    states = compat.dag_states(session, (row.key.dag_id for row in rows))
    plan = plan_sync(rows, declared, _inactive(states))
    apply_plan(session, plan)
    session.commit()
    return plan


def _inactive(states: Mapping[str, compat.DagState]) -> AbstractSet[str]:
    gone = (compat.DagState.MISSING, compat.DagState.INACTIVE)
    return {dag_id for dag_id, state in states.items() if state in gone}


def _read_rows(session: Any) -> list[StoredRow]:
    return [
        StoredRow(
            id=row.id,
            key=SubscriptionKey(row.dag_id, row.queue_name, row.conn_id),
            source=Source(row.source),
            enabled=bool(row.enabled),
            misses=row.absent_cycles or 0,
            settings=Settings(row.filter_data or {}, row.cooldown or 0, ack_unmatched=bool(row.ack_unmatched)),
        )
        for row in session.scalars(select(RMQSubscription))
    ]


def apply_plan(session: Any, plan: SyncPlan) -> None:
    """Write a plan; a row that another Scheduler has moved on meanwhile is left alone."""
    for declaration in plan.inserts:
        dag_id, queue_name, conn_id = declaration.key
        settings = Settings.of(declaration).columns(dag_id)
        session.add(
            RMQSubscription(
                dag_id=dag_id, queue_name=queue_name, conn_id=conn_id, source=Source.DAG_FILE.value, **settings
            )
        )
        log.info("subscription registered: %s", declaration.key)
    for row, declaration in plan.changes:
        change = update(RMQSubscription).where(RMQSubscription.id == row.id)
        settings = Settings.of(declaration).columns(row.key.dag_id)
        session.execute(change.values(**settings), execution_options={"synchronize_session": False})
        log.info("subscription %d (%s) has changed in its DAG file", row.id, row.key)
    for row in plan.found_again:
        if _write(session, update(RMQSubscription).values(absent_cycles=0), row):
            log.info("subscription %d (%s) is declared again after %d misses", row.id, row.key, row.misses)
    for row in plan.misses:
        if _write(session, update(RMQSubscription).values(absent_cycles=row.misses + 1), row):
            log.warning(
                "subscription %d (%s) is missing from the DAG files, miss %d; %d are survived",
                row.id,
                row.key,
                row.misses + 1,
                MISSES_SURVIVED,
            )
    for row in plan.deletions:
        if _write(session, delete(RMQSubscription).where(RMQSubscription.enabled.is_(row.enabled)), row):
            log.info("subscription %d (%s) deleted after %d misses", row.id, row.key, row.misses + 1)
    for row in plan.foreign:
        log.warning(
            "subscription %d (%s) was created in the UI and is declared in a DAG file too; the row stays the UI's",
            row.id,
            row.key,
        )


def _write(session: Any, statement: Any, row: StoredRow) -> bool:
    """Execute only if the row still carries the counter it was read with."""
    counter = RMQSubscription.absent_cycles
    unchanged = counter == row.misses if row.misses else counter.is_(None) | (counter == 0)
    matched = statement.where(RMQSubscription.id == row.id, unchanged)
    result = session.execute(matched, execution_options={"synchronize_session": False})
    return bool(result.rowcount)
