"""The Connections block of the page: one line for each Airflow connection that a subscription has ever named. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from airflow_provider_rmq.watcher.rows.page_rows import ConnectionRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLine:
    """One connection as it is shown.

    Args:
        conn_id: The Airflow connection.
        status: The broker's last verdict: connected, error, degraded or unknown.
        error: Why, where it is not connected.
        consumers: Consumers the watcher holds.
        broker_consumers: Consumers the broker reports, None where there is no number.
        differs: Why the two numbers differ, None when they agree or one is not known.
        age: Seconds since the last cycle, None when none has stamped it.
        is_stale: Whether a watcher that does what it is configured to do would have stamped it since.
    """

    conn_id: str
    status: str
    error: str | None
    consumers: int
    broker_consumers: int | None
    differs: str | None
    age: float | None
    is_stale: bool


def lay_out_connections(rows: Iterable[ConnectionRow], now: datetime, stale_after: float) -> tuple[ConnectionLine, ...]:
    """Make the lines.

    Args:
        rows: The stored rows.
        now: Naive UTC, as the rows hold it.
        stale_after: Seconds a stamp may be old.
    """
    return tuple(_line(row, now, stale_after) for row in rows)


def _line(row: ConnectionRow, now: datetime, stale_after: float) -> ConnectionLine:
    age = None if row.reconciled_at is None else max(0.0, (now - row.reconciled_at).total_seconds())
    return ConnectionLine(
        conn_id=row.conn_id,
        status=row.status,
        error=row.error,
        consumers=row.consumers,
        broker_consumers=row.broker_consumers,
        differs=_difference(row),
        age=age,
        is_stale=age is None or age > stale_after,
    )


def _difference(row: ConnectionRow) -> str | None:
    if row.broker_consumers is None or row.broker_consumers == row.consumers:
        return None
    if row.broker_consumers < row.consumers:
        return "fewer at the broker: a subscription is still connecting, or waits after an error"
    return "more at the broker: another Scheduler's watcher, or other clients on the same queues"
