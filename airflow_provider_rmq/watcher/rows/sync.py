"""Brings the rows in line with what is declared: reads them, plans (`sync_plan`), writes, commits. Blocking.

Other Schedulers do the same on the same table. Every write that the miss counter makes is matched on the value the row
was read with, so whoever comes second writes nothing; a key both of them insert is inserted once. A sync that is still
busy when a newer listing is there commits nothing: what it planned is no longer what is declared.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError

from airflow_provider_rmq import compat
from airflow_provider_rmq.errors import RMQError
from airflow_provider_rmq.utils.metrics import incr
from airflow_provider_rmq.watcher.declarations import Complaint
from airflow_provider_rmq.watcher.models import RMQSubscription
from airflow_provider_rmq.watcher.rows.sync_plan import MISSES_SURVIVED, Settings, StoredRow, SyncPlan, plan_sync
from airflow_provider_rmq.watcher.subscription import Declaration, Source, SubscriptionKey
from airflow_provider_rmq.watcher.tunables import Metric

log = logging.getLogger(__name__)

#: Times a sync plans anew because another Scheduler inserted the same key in between.
ATTEMPTS = 3

_GONE = (compat.DagState.MISSING, compat.DagState.INACTIVE)


class SyncSuperseded(RMQError):
    """A newer listing came while this sync was busy; nothing was committed."""


@dataclass(slots=True)
class DeclarationSync:
    """The syncs of one process, in turn; remembers what it deleted."""

    _latest: int = 0
    _deleted: dict[SubscriptionKey, bool] = field(default_factory=dict)
    _told: frozenset[Complaint] = frozenset()

    def take_turn(self) -> int:
        """A turn for a new listing; ends the right to commit of every earlier one."""
        self._latest += 1
        return self._latest

    def run(self, session: Any, declared: AbstractSet[Declaration], turn: int) -> SyncPlan:
        """Sync the rows with a trusted listing.

        Raises:
            SyncSuperseded: The turn is not the latest any more.
        """
        for attempts_left in reversed(range(ATTEMPTS)):
            rows = _read_rows(session)
            plan = plan_sync(rows, declared, _inactive_dag_ids(session, rows, declared))
            done = _Changes(session)
            try:
                done.apply(plan)
            except IntegrityError:  # another Scheduler has inserted the same key just now: its row is ours to find
                session.rollback()
                if not attempts_left:
                    raise
                continue
            break
        if turn != self._latest:
            session.rollback()
            incr(Metric.SYNC_SUPERSEDED)
            log.warning("RMQ Watcher: a sync was overtaken by a newer listing and commits nothing")
            raise SyncSuperseded("a newer listing is there")
        session.commit()
        done.report()
        self._report_returns(done.inserted)
        for row in rows:
            self._deleted.pop(row.key, None)
        self._deleted |= {row.key: row.enabled for row in done.deleted}
        self._report_refusals(plan.refusals)
        return plan

    def _report_returns(self, inserted: Iterable[Declaration]) -> None:
        for declaration in inserted:
            was_enabled = self._deleted.pop(declaration.key, None)
            if was_enabled is not None:
                log.warning(
                    "subscription %s is declared again; its row had been deleted when it was switched %s, and the new "
                    "row is switched on",
                    declaration.key,
                    "on" if was_enabled else "off",
                )

    def _report_refusals(self, refusals: Iterable[Complaint]) -> None:
        """Warn of what was not refused by the last sync already."""
        for refusal in refusals:
            if refusal not in self._told:
                log.warning("%s", refusal)
        self._told = frozenset(refusals)


def _inactive_dag_ids(session: Any, rows: Iterable[StoredRow], declared: AbstractSet[Declaration]) -> AbstractSet[str]:
    """Of the DAGs whose rows are not declared, those that Airflow does not hold active."""
    wanted = {declaration.key for declaration in declared}
    states: Mapping[str, compat.DagState] = compat.dag_states(
        session, {row.key.dag_id for row in rows if row.key not in wanted and row.source is Source.DAG_FILE}
    )
    return {dag_id for dag_id, state in states.items() if state in _GONE}


def _read_rows(session: Any) -> list[StoredRow]:
    return [
        StoredRow(
            id=row.id,
            key=SubscriptionKey(row.dag_id, row.queue_name, row.conn_id),
            source=Source.DAG_FILE if row.source == Source.DAG_FILE.value else Source.UI,
            enabled=bool(row.enabled),
            misses=row.absent_cycles or 0,
            settings=Settings(row.filter_data or {}, row.cooldown or 0, bool(row.ack_unmatched), row.on_filter_error),
        )
        for row in session.scalars(select(RMQSubscription))
    ]


@dataclass(slots=True)
class _Changes:
    """Writes a plan into an open transaction, and knows afterwards what was really written."""

    session: Any
    inserted: list[Declaration] = field(default_factory=list)
    changed: list[StoredRow] = field(default_factory=list)
    cleared: list[StoredRow] = field(default_factory=list)
    counted: list[StoredRow] = field(default_factory=list)
    deleted: list[StoredRow] = field(default_factory=list)

    def apply(self, plan: SyncPlan) -> None:
        """Write; a row that another Scheduler has moved on meanwhile is left alone."""
        for declaration in plan.inserts:
            self._insert(declaration)
        self.session.flush()
        self.inserted = list(plan.inserts)
        self.changed = [row for row, declaration in plan.changes if self._change(row, declaration)]
        self.cleared = [row for row in plan.found_again if self._count(row, 0)]
        self.counted = [row for row in plan.misses if self._count(row, row.misses + 1)]
        self.deleted = [row for row in plan.deletions if self._delete(row)]

    def report(self) -> None:
        """Log what was committed."""
        for declaration in self.inserted:
            log.info("subscription registered: %s", declaration.key)
        for row in self.changed:
            log.info("subscription %d (%s) has changed in its DAG file", row.id, row.key)
        for row in self.cleared:
            log.info("subscription %d (%s) is declared again after %d misses", row.id, row.key, row.misses)
        for row in self.counted:
            log.warning(
                "subscription %d (%s) is missing from the DAG files, miss %d; %d are survived",
                row.id,
                row.key,
                row.misses + 1,
                MISSES_SURVIVED,
            )
        for row in self.deleted:
            log.info("subscription %d (%s) deleted after %d misses", row.id, row.key, row.misses + 1)

    def _insert(self, declaration: Declaration) -> None:
        dag_id, queue_name, conn_id = declaration.key
        columns = Settings.of(declaration).columns(dag_id)
        self.session.add(
            RMQSubscription(
                dag_id=dag_id, queue_name=queue_name, conn_id=conn_id, source=Source.DAG_FILE.value, **columns
            )
        )

    def _change(self, row: StoredRow, declaration: Declaration) -> bool:
        columns = Settings.of(declaration).columns(row.key.dag_id)
        ours = RMQSubscription.source == Source.DAG_FILE.value
        return self._execute(update(RMQSubscription).where(RMQSubscription.id == row.id, ours).values(**columns))

    def _count(self, row: StoredRow, misses: int) -> bool:
        return self._execute(update(RMQSubscription).where(*_as_read(row)).values(absent_cycles=misses))

    def _delete(self, row: StoredRow) -> bool:
        switch = RMQSubscription.enabled.is_(row.enabled)
        return self._execute(delete(RMQSubscription).where(*_as_read(row), switch))

    def _execute(self, statement: Any) -> bool:
        return bool(self.session.execute(statement, execution_options={"synchronize_session": False}).rowcount)


def _as_read(row: StoredRow) -> tuple[Any, Any]:
    """The row, if it still carries the counter it was read with."""
    counter = RMQSubscription.absent_cycles
    unchanged = counter == row.misses if row.misses else counter.is_(None) | (counter == 0)
    return RMQSubscription.id == row.id, unchanged
