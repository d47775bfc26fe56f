"""Tables of earlier releases get the columns they lack; what they hold stays."""

from datetime import datetime

import pytest
from sqlalchemy import inspect, text

from airflow_provider_rmq.watcher.models import RMQConnStatus, RMQSubscription
from airflow_provider_rmq.watcher.rows.schema import ensure_schema, is_schema_ready

FIRST_RELEASE = (
    """
CREATE TABLE rmq_watcher_subscriptions (
    id INTEGER NOT NULL PRIMARY KEY, dag_id VARCHAR(250) NOT NULL, queue_name VARCHAR(250) NOT NULL,
    conn_id VARCHAR(250) NOT NULL, filter_data JSON, source VARCHAR(10) NOT NULL, enabled BOOLEAN NOT NULL,
    consumer_status VARCHAR(20) NOT NULL, last_error TEXT, trigger_mode VARCHAR(20) NOT NULL, group_key VARCHAR(250),
    cooldown INTEGER, created_at DATETIME NOT NULL, updated_at DATETIME NOT NULL,
    CONSTRAINT uq_rmq_sub_dag_queue_conn UNIQUE (dag_id, queue_name, conn_id)
)
""",
    """
CREATE TABLE rmq_watcher_conn_status (
    conn_id VARCHAR(250) NOT NULL PRIMARY KEY, status VARCHAR(20) NOT NULL, consumer_count INTEGER NOT NULL,
    last_error TEXT, updated_at DATETIME NOT NULL
)
""",
)


@pytest.fixture
def dropped(session):
    for model in (RMQSubscription, RMQConnStatus):
        session.execute(text(f"DROP TABLE {model.__tablename__}"))
    session.commit()
    return session


def columns(session, model):
    return {column["name"] for column in inspect(session.connection()).get_columns(model.__tablename__)}


def test_without_tables_both_are_made(dropped):
    assert not is_schema_ready(dropped)

    ensure_schema(dropped)

    assert is_schema_ready(dropped)


def test_tables_of_the_first_release_get_their_columns_and_keep_their_rows(dropped):
    for statement in FIRST_RELEASE:
        dropped.execute(text(statement))
    dropped.execute(
        text(
            "INSERT INTO rmq_watcher_subscriptions VALUES (7, 'd', 'q', 'rmq_default', '{}', 'dag_file', 0,"
            " 'listening', NULL, 'any', NULL, NULL, :now, :now)"
        ),
        {"now": datetime(2025, 1, 1)},
    )
    dropped.commit()
    assert not is_schema_ready(dropped)

    ensure_schema(dropped)
    ensure_schema(dropped)

    assert is_schema_ready(dropped)
    assert {"ack_unmatched", "absent_cycles"} <= columns(dropped, RMQSubscription)
    assert {"broker_consumer_count", "last_reconcile_at"} <= columns(dropped, RMQConnStatus)
    row = dropped.get(RMQSubscription, 7)
    assert (row.dag_id, row.enabled, row.ack_unmatched, row.absent_cycles) == ("d", False, None, None)
