"""The rows as values for people and programs outside the watcher, and the one thing they may change: `enabled`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from sqlalchemy import select, update

from airflow_provider_rmq.watcher.models import RMQConnStatus, RMQSubscription


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRow:
    """One subscription as it is stored; what old rows leave null has its meaning."""

    id: int
    dag_id: str
    queue_name: str
    conn_id: str
    source: str
    enabled: bool
    consumer_status: str
    last_error: str | None
    cooldown: int
    ack_unmatched: bool
    filter_data: Mapping[str, Any]
    absent_cycles: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRow:
    """What the watcher last said about one AMQP connection; `last_reconcile_at` in UTC."""

    conn_id: str
    status: str
    consumer_count: int
    broker_consumer_count: int | None
    last_error: str | None
    last_reconcile_at: datetime | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the moment in ISO 8601."""
        moment = self.last_reconcile_at
        return {**asdict(self), "last_reconcile_at": moment.isoformat() if moment else None}


def subscription_rows(session: Any) -> tuple[SubscriptionRow, ...]:
    """All subscriptions, in the order of their ids."""
    return tuple(
        SubscriptionRow(
            id=row.id,
            dag_id=row.dag_id,
            queue_name=row.queue_name,
            conn_id=row.conn_id,
            source=row.source,
            enabled=bool(row.enabled),
            consumer_status=row.consumer_status,
            last_error=row.last_error,
            cooldown=row.cooldown or 0,
            ack_unmatched=bool(row.ack_unmatched),
            filter_data=row.filter_data or {},
            absent_cycles=row.absent_cycles or 0,
        )
        for row in session.scalars(select(RMQSubscription).order_by(RMQSubscription.id))
    )


def connection_rows(session: Any) -> tuple[ConnectionRow, ...]:
    """All AMQP connections that the watcher has written about, by conn_id."""
    return tuple(
        ConnectionRow(
            conn_id=row.conn_id,
            status=row.status,
            consumer_count=row.consumer_count,
            broker_consumer_count=row.broker_consumer_count,
            last_error=row.last_error,
            last_reconcile_at=row.last_reconcile_at and row.last_reconcile_at.replace(tzinfo=timezone.utc),
        )
        for row in session.scalars(select(RMQConnStatus).order_by(RMQConnStatus.conn_id))
    )


def set_enabled(session: Any, ids: Iterable[int], *, enabled: bool) -> frozenset[int]:
    """Switch rows and commit; the ids of those that were not so before."""
    table = RMQSubscription
    different = table.id.in_(sorted(ids)), table.enabled.is_(not enabled)
    changed = frozenset(session.scalars(select(table.id).where(*different)))
    session.execute(
        update(table).where(*different).values(enabled=enabled).execution_options(synchronize_session=False)
    )
    session.commit()
    return changed
