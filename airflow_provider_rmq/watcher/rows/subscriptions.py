"""Reads the subscriptions the watcher has to serve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from airflow_provider_rmq.broker.topology import OWN_PREFIX, SUB_PREFIX, check_cooldown_dag_id
from airflow_provider_rmq.errors import ConfigurationError
from airflow_provider_rmq.messages.filters import MessageFilter
from airflow_provider_rmq.watcher.models import RMQSubscription
from airflow_provider_rmq.watcher.subscription import OnFilterError, Subscription, SubscriptionKey


@dataclass(frozen=True, slots=True)
class EnabledSubscriptions:
    """The enabled rows: those that can be served, and those that ask for what this version does not do, with why.

    `conn_ids` are those of all of them.
    """

    served: tuple[Subscription, ...] = ()
    refused: Mapping[int, str] = field(default_factory=dict)
    conn_ids: frozenset[str] = frozenset()


def enabled_subscriptions(session: Any) -> EnabledSubscriptions:
    """All enabled subscriptions, in the order of their ids."""
    statement = select(RMQSubscription).where(RMQSubscription.enabled.is_(True)).order_by(RMQSubscription.id)
    served: list[Subscription] = []
    refused: dict[int, str] = {}
    conn_ids: set[str] = set()
    for row in session.scalars(statement):
        conn_ids.add(row.conn_id)
        try:
            served.append(_subscription(row))
        except ConfigurationError as error:
            refused[row.id] = f"{error}; nothing is consumed"
    return EnabledSubscriptions(tuple(served), refused, frozenset(conn_ids))


def _subscription(row: Any) -> Subscription:
    """Read a row; consuming it without what it asks for would start DAGs it does not want started.

    Raises:
        ConfigurationError: The row asks for what cannot be served, or holds a filter that is none.
    """
    cooldown = row.cooldown or 0
    if cooldown < 0:
        raise ConfigurationError(f"the cooldown of {cooldown} s is negative")
    if cooldown:
        check_cooldown_dag_id(row.dag_id)
    if row.queue_name.startswith(OWN_PREFIX) and not row.queue_name.startswith(SUB_PREFIX):
        raise ConfigurationError(f"queue {row.queue_name} is the watcher's own, its messages are markers")
    filter_data = row.filter_data or {}
    MessageFilter.deserialize(filter_data)
    return Subscription(
        id=row.id,
        key=SubscriptionKey(row.dag_id, row.queue_name, row.conn_id),
        filter_data=filter_data,
        ack_unmatched=bool(row.ack_unmatched),
        cooldown=cooldown,
        on_filter_error=OnFilterError.of(row.on_filter_error),
    )
