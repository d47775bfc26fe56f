"""Reads the subscriptions the watcher has to serve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from airflow_provider_rmq.watcher.models import RMQSubscription
from airflow_provider_rmq.watcher.subscription import Subscription, SubscriptionKey


@dataclass(frozen=True, slots=True)
class EnabledSubscriptions:
    """The enabled rows: those that can be served, and those that ask for what this version does not do, with why."""

    served: tuple[Subscription, ...] = ()
    refused: Mapping[int, str] = field(default_factory=dict)


def enabled_subscriptions(session: Any) -> EnabledSubscriptions:
    """All enabled subscriptions, in the order of their ids."""
    statement = select(RMQSubscription).where(RMQSubscription.enabled.is_(True)).order_by(RMQSubscription.id)
    served: list[Subscription] = []
    refused: dict[int, str] = {}
    for row in session.scalars(statement):
        unserved = _unserved(row)
        if unserved:
            refused[row.id] = f"this version does not serve {', '.join(unserved)}; nothing is consumed"
        else:
            served.append(Subscription(id=row.id, key=SubscriptionKey(row.dag_id, row.queue_name, row.conn_id)))
    return EnabledSubscriptions(tuple(served), refused)


def _unserved(row: Any) -> list[str]:
    """What a row of another release asks for; consuming it without that would start DAGs it does not want started."""
    filters = (row.filter_data or {}).get("filter_headers") or (row.filter_data or {}).get("filter_callable")
    asked = {"filter_data": filters, "cooldown": row.cooldown, "ack_unmatched": row.ack_unmatched}
    return [name for name, value in asked.items() if value]
