"""Which of the provider's own queues the rows stand for, enabled or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from airflow_provider_rmq.broker.topology import SUB_PREFIX, pending_queue_name
from airflow_provider_rmq.watcher.models import RMQConnStatus, RMQSubscription


@dataclass(frozen=True, slots=True)
class OwnedQueues:
    """Names of queues, and the Airflow connections the rows know."""

    pending: frozenset[str] = frozenset()
    sub: frozenset[str] = frozenset()
    conn_ids: frozenset[str] = frozenset()


def owned_queues(session: Any) -> OwnedQueues:
    """Read all rows; those of connection states outlive the subscriptions, so a conn_id is known longer than used."""
    table = RMQSubscription
    rows = session.execute(select(table.dag_id, table.queue_name, table.conn_id, table.cooldown)).all()
    return OwnedQueues(
        pending=frozenset(pending_queue_name(row.dag_id) for row in rows if row.cooldown),
        sub=frozenset(row.queue_name for row in rows if row.queue_name.startswith(SUB_PREFIX)),
        conn_ids=frozenset([row.conn_id for row in rows] + list(session.scalars(select(RMQConnStatus.conn_id)))),
    )
