"""The tables, as SQLAlchemy models in the subset that 1.4 and 2 share; reading and writing them is `rows`' part.

Names, columns and unique key of the first two are those of the releases before this one: their rows stay in use. A new
column must be nullable: `rows.schema` adds it to tables that exist. No column has a server default, so an insert from
outside fills every NOT NULL column.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, Boolean, Column, DateTime, Integer, String, Text, UniqueConstraint, func
from sqlalchemy.orm import declarative_base

from airflow_provider_rmq import compat

WatcherBase: Any = declarative_base()


def WatcherSession() -> Any:  # noqa: N802 - a published name that reads as a class
    """A session of Airflow's own engine; the caller commits and closes it."""
    return compat.session_factory()()


class RMQSubscription(WatcherBase):
    """One subscription; `id` appears in run confs, consumer tags and URLs."""

    __tablename__ = "rmq_watcher_subscriptions"
    __table_args__ = (UniqueConstraint("dag_id", "queue_name", "conn_id", name="uq_rmq_sub_dag_queue_conn"),)

    id = Column(Integer, primary_key=True, autoincrement=True)
    dag_id = Column(String(250), nullable=False)
    queue_name = Column(String(250), nullable=False)
    conn_id = Column(String(250), nullable=False, default="rmq_default")
    filter_data = Column(JSON, nullable=True)
    source = Column(String(10), nullable=False)
    enabled = Column(Boolean, nullable=False, default=True)
    consumer_status = Column(String(20), nullable=False, default="connecting")
    last_error = Column(Text, nullable=True)
    trigger_mode = Column(String(20), nullable=False, default="any")
    group_key = Column(String(250), nullable=True)
    cooldown = Column(Integer, nullable=True)
    ack_unmatched = Column(Boolean, nullable=True)
    on_filter_error = Column(String(20), nullable=True)
    absent_cycles = Column(Integer, nullable=True)
    created_at = Column(DateTime, nullable=False, default=func.now())
    updated_at = Column(DateTime, nullable=False, default=func.now(), onupdate=func.now())


class RMQConnStatus(WatcherBase):
    """What the watcher knows of one AMQP connection, by Airflow connection id."""

    __tablename__ = "rmq_watcher_conn_status"

    conn_id = Column(String(250), primary_key=True)
    status = Column(String(20), nullable=False, default="unknown")
    consumer_count = Column(Integer, nullable=False, default=0)
    broker_consumer_count = Column(Integer, nullable=True)
    last_error = Column(Text, nullable=True)
    last_reconcile_at = Column(DateTime, nullable=True)
    updated_at = Column(DateTime, nullable=False, default=func.now(), onupdate=func.now())


class RMQComplaint(WatcherBase):
    """Something about a declaration that could not be read, by the digest of its text; written by `rows.complaints`."""

    __tablename__ = "rmq_watcher_complaints"

    digest = Column(String(64), primary_key=True)
    path = Column(Text, nullable=False)
    line = Column(Integer, nullable=False, default=0)
    dag_id = Column(String(250), nullable=True)
    queue_name = Column(String(250), nullable=True)
    text = Column(Text, nullable=False)
    first_seen_at = Column(DateTime, nullable=False)
    seen_at = Column(DateTime, nullable=False)


class RMQWatcherRestart(WatcherBase):
    """How often the worker below one Scheduler was started again; no row where it never was."""

    __tablename__ = "rmq_watcher_restart"

    hostname = Column(String(250), primary_key=True)
    scheduler_pid = Column(Integer, primary_key=True, autoincrement=False)
    restarts = Column(Integer, nullable=False)
    last_end = Column(String(250), nullable=True)
    restarted_at = Column(DateTime, nullable=False)
