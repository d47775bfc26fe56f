"""The Subscriptions page as a value: from rows to what is shown. Knows no web framework; `views` draws it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from airflow_provider_rmq.watcher.models import RMQConnStatus, RMQSubscription
from airflow_provider_rmq.watcher.rows.schema import is_schema_ready

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionLine:
    """One subscription as it is shown."""

    id: int
    dag_id: str
    queue_name: str
    conn_id: str
    source: str
    enabled: bool
    status: str
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLine:
    """One Airflow connection as it is shown; `age` is in seconds, None when no cycle has stamped it."""

    conn_id: str
    status: str
    consumers: int
    age: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionsPage:
    """All that the page shows; a read that failed arrives as `notice`."""

    subscriptions: tuple[SubscriptionLine, ...] = ()
    connections: tuple[ConnectionLine, ...] = ()
    notice: str | None = None


def load_page(session: Any, now: datetime) -> SubscriptionsPage:
    """Read the rows and lay the page out.

    Args:
        session: A SQLAlchemy session.
        now: Naive UTC, as the rows hold it.
    """
    try:
        if not is_schema_ready(session):
            return SubscriptionsPage(
                notice="The watcher's tables are not there yet: they are made when the Scheduler starts the watcher."
            )
        subscriptions = session.scalars(select(RMQSubscription).order_by(RMQSubscription.id)).all()
        connections = session.scalars(select(RMQConnStatus).order_by(RMQConnStatus.conn_id)).all()
    except SQLAlchemyError:
        log.exception("the Subscriptions page could not read its tables")
        return SubscriptionsPage(notice="The watcher's tables could not be read; the web server's log has the reason.")
    return SubscriptionsPage(
        subscriptions=tuple(_subscription_line(row) for row in subscriptions),
        connections=tuple(_connection_line(row, now) for row in connections),
    )


def _subscription_line(row: Any) -> SubscriptionLine:
    return SubscriptionLine(
        id=row.id,
        dag_id=row.dag_id,
        queue_name=row.queue_name,
        conn_id=row.conn_id,
        source=row.source,
        enabled=bool(row.enabled),
        status=row.consumer_status,
        error=row.last_error,
    )


def _connection_line(row: Any, now: datetime) -> ConnectionLine:
    stamp = row.last_reconcile_at
    return ConnectionLine(
        conn_id=row.conn_id,
        status=row.status,
        consumers=row.consumer_count,
        age=None if stamp is None else max(0.0, (now - stamp).total_seconds()),
    )
