"""The shapes our tables had, written down by hand: what older releases left in a database.

Deliberately not made from the models, which know the present shape only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    DateTime,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

SUBSCRIPTIONS, CONNECTIONS = "rmq_watcher_subscriptions", "rmq_watcher_conn_status"

#: Column by name, in the order of the releases that added them.
LATER_OF_SUBSCRIPTIONS: dict[str, Callable[[], Column]] = {
    "ack_unmatched": lambda: Column("ack_unmatched", Boolean, nullable=True),
    "absent_cycles": lambda: Column("absent_cycles", Integer, nullable=True),
}
LATER_OF_CONNECTIONS: dict[str, Callable[[], Column]] = {
    "broker_consumer_count": lambda: Column("broker_consumer_count", Integer, nullable=True),
    "last_reconcile_at": lambda: Column("last_reconcile_at", DateTime, nullable=True),
}


@dataclass(frozen=True)
class Shape:
    """Which tables there are, and which of the later columns they have; None for no table."""

    subscriptions: tuple[str, ...] | None
    connections: tuple[str, ...] | None

    def create(self, engine) -> None:
        """Make the tables."""
        metadata = MetaData()
        if self.subscriptions is not None:
            Table(
                SUBSCRIPTIONS,
                metadata,
                Column("id", Integer, primary_key=True, autoincrement=True),
                Column("dag_id", String(250), nullable=False),
                Column("queue_name", String(250), nullable=False),
                Column("conn_id", String(250), nullable=False),
                Column("filter_data", JSON, nullable=True),
                Column("source", String(10), nullable=False),
                Column("enabled", Boolean, nullable=False),
                Column("consumer_status", String(20), nullable=False),
                Column("last_error", Text, nullable=True),
                Column("trigger_mode", String(20), nullable=False),
                Column("group_key", String(250), nullable=True),
                Column("cooldown", Integer, nullable=True),
                *(LATER_OF_SUBSCRIPTIONS[name]() for name in self.subscriptions),
                Column("created_at", DateTime, nullable=False),
                Column("updated_at", DateTime, nullable=False),
                UniqueConstraint("dag_id", "queue_name", "conn_id", name="uq_rmq_sub_dag_queue_conn"),
            )
        if self.connections is not None:
            Table(
                CONNECTIONS,
                metadata,
                Column("conn_id", String(250), primary_key=True),
                Column("status", String(20), nullable=False),
                Column("consumer_count", Integer, nullable=False),
                *(LATER_OF_CONNECTIONS[name]() for name in self.connections),
                Column("last_error", Text, nullable=True),
                Column("updated_at", DateTime, nullable=False),
            )
        metadata.create_all(engine)


ALL_SUBSCRIPTIONS, ALL_CONNECTIONS = tuple(LATER_OF_SUBSCRIPTIONS), tuple(LATER_OF_CONNECTIONS)

SHAPES = {
    "no tables": Shape(None, None),
    "first release": Shape((), ()),
    "subscriptions only": Shape((), None),
    "before ack_unmatched": Shape((), ALL_CONNECTIONS),
    "before absent_cycles": Shape(("ack_unmatched",), ALL_CONNECTIONS),
    "absent_cycles without ack_unmatched": Shape(("absent_cycles",), ALL_CONNECTIONS),
    "before broker_consumer_count": Shape(ALL_SUBSCRIPTIONS, ("last_reconcile_at",)),
    "before last_reconcile_at": Shape(ALL_SUBSCRIPTIONS, ("broker_consumer_count",)),
    "2.6.0": Shape(ALL_SUBSCRIPTIONS, ALL_CONNECTIONS),
}
