"""Reads the subscriptions the watcher has to serve."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from airflow_provider_rmq.watcher.models import RMQSubscription
from airflow_provider_rmq.watcher.subscription import Subscription, SubscriptionKey


def enabled_subscriptions(session: Any) -> list[Subscription]:
    """All enabled subscriptions, in the order of their ids."""
    statement = select(RMQSubscription).where(RMQSubscription.enabled.is_(True)).order_by(RMQSubscription.id)
    return [_subscription(row) for row in session.scalars(statement)]


def _subscription(row: Any) -> Subscription:
    return Subscription(id=row.id, key=SubscriptionKey(row.dag_id, row.queue_name, row.conn_id))
