"""Reads the rows that the Subscriptions page shows, as plain values; each function is one query.

`web.subscriptions_page` lays them out; `rows.editing` is what a click changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import select

from airflow_provider_rmq.watcher.models import RMQConnStatus, RMQSubscription
from airflow_provider_rmq.watcher.subscription import Source, SubscriptionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRow:
    """One row of the subscriptions table; columns that older releases left null read as their defaults."""

    id: int
    key: SubscriptionKey
    source: Source
    enabled: bool
    status: str
    error: str | None = None
    filter_data: Mapping[str, Any] = field(default_factory=dict, hash=False)
    group_key: str | None = None
    cooldown: int = 0
    ack_unmatched: bool = False
    misses: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRow:
    """One row of the connections table; `reconciled_at` is naive UTC."""

    conn_id: str
    status: str
    consumers: int
    broker_consumers: int | None = None
    error: str | None = None
    reconciled_at: datetime | None = None


def subscription_rows(session: Any) -> list[SubscriptionRow]:
    """All subscriptions, in the order of their ids."""
    return [as_subscription_row(row) for row in session.scalars(select(RMQSubscription).order_by(RMQSubscription.id))]


def as_subscription_row(row: Any) -> SubscriptionRow:
    """One row of the table as a value."""
    return SubscriptionRow(
        id=row.id,
        key=SubscriptionKey(row.dag_id, row.queue_name, row.conn_id),
        source=Source(row.source),
        enabled=bool(row.enabled),
        status=row.consumer_status,
        error=row.last_error,
        filter_data=row.filter_data or {},
        group_key=row.group_key,
        cooldown=row.cooldown or 0,
        ack_unmatched=bool(row.ack_unmatched),
        misses=row.absent_cycles or 0,
    )


def connection_rows(session: Any) -> list[ConnectionRow]:
    """All connections, by conn_id."""
    return [
        ConnectionRow(
            conn_id=row.conn_id,
            status=row.status,
            consumers=row.consumer_count or 0,
            broker_consumers=row.broker_consumer_count,
            error=row.last_error,
            reconciled_at=row.last_reconcile_at,
        )
        for row in session.scalars(select(RMQConnStatus).order_by(RMQConnStatus.conn_id))
    ]
