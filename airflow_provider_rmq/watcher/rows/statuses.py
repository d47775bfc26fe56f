"""Writes what the watcher knows into the rows: the status of each subscription and of each Airflow connection.

When to write, and what becomes of a write that fails, is `service.status_writer`'s part.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select, update

from airflow_provider_rmq.watcher.models import RMQConnStatus, RMQSubscription
from airflow_provider_rmq.watcher.states import ConnectionReport, ConnectionStatus, Row

#: Characters of an error text kept in a row.
MAX_ERROR_LENGTH = 2000


def write_subscription_statuses(session: Any, rows: Mapping[int, Row]) -> None:
    """Write the given statuses and commit; `updated_at` moves only where something changed."""
    table = RMQSubscription
    stored = {
        row[0]: (row[1], row[2])
        for row in session.execute(
            select(table.id, table.consumer_status, table.last_error).where(table.id.in_(sorted(rows)))
        )
    }
    for subscription_id, (status, error) in rows.items():
        wanted = (status.value, error[:MAX_ERROR_LENGTH] if error else None)
        if stored.get(subscription_id, wanted) != wanted:
            session.execute(
                update(table)
                .where(table.id == subscription_id)
                .values(consumer_status=wanted[0], last_error=wanted[1])
                .execution_options(synchronize_session=False)
            )
    session.commit()


def write_connection_statuses(session: Any, reports: Mapping[str, ConnectionReport], now: datetime) -> None:
    """Stamp the row of every conn_id that a subscription names, and commit; no row is ever deleted.

    Counts and stamp move in every cycle. The status is written whenever there is a verdict, also one that changes
    nothing, because another Scheduler's watcher may have written its own meanwhile.

    Args:
        session: A SQLAlchemy session.
        reports: What this cycle found, by conn_id.
        now: Naive UTC, as the column holds it.
    """
    for conn_id, report in reports.items():
        stored = session.get(RMQConnStatus, conn_id)
        if stored is None:
            stored = RMQConnStatus(conn_id=conn_id, status=ConnectionStatus.UNKNOWN.value)
        if report.status is not None:
            stored.status = report.status.value
            stored.last_error = report.error[:MAX_ERROR_LENGTH] if report.error else None
        stored.consumer_count = report.consumers
        stored.broker_consumer_count = report.broker_consumers
        stored.last_reconcile_at = now
        session.add(stored)
    session.commit()
