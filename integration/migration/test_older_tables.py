"""L20: tables of older releases get what they lack and keep what they hold, whoever migrates at the same time."""

import threading
from contextlib import closing
from datetime import datetime, timezone

import pytest
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from airflow_provider_rmq.watcher.models import RMQConnStatus, RMQSubscription
from airflow_provider_rmq.watcher.rows.restarts import WorkerStart, note_start, recent_restarts
from airflow_provider_rmq.watcher.rows.schema import ensure_schema, is_schema_ready
from integration.migration.older_shapes import CONNECTIONS, SHAPES, SUBSCRIPTIONS

MOMENT = datetime(2025, 1, 1, 12)  # noqa: DTZ001 - naive, as the columns are


@pytest.fixture(params=list(SHAPES))
def shape(request, engine):
    """A database in an older shape, with a row in each table there is."""
    shape = SHAPES[request.param]
    shape.create(engine)
    with engine.begin() as connection:
        if shape.subscriptions is not None:
            connection.execute(
                text(
                    f"INSERT INTO {SUBSCRIPTIONS} (dag_id, queue_name, conn_id, filter_data, source, enabled,"
                    " consumer_status, trigger_mode, created_at, updated_at) VALUES"
                    " ('d', 'q', 'rmq_default', '{}', 'dag_file', :off, 'listening', 'any', :now, :now)"
                ),
                {"now": MOMENT, "off": False},
            )
        if shape.connections is not None:
            connection.execute(
                text(
                    f"INSERT INTO {CONNECTIONS} (conn_id, status, consumer_count, updated_at) VALUES"
                    " ('rmq_default', 'connected', 3, :now)"
                ),
                {"now": MOMENT},
            )
    return shape


def test_every_older_shape_becomes_the_present_one_and_keeps_its_rows(shape, engine):
    with closing(Session(engine, future=True)) as session:
        assert not is_schema_ready(session)

        ensure_schema(session)
        ensure_schema(session)

        assert is_schema_ready(session)
        if shape.subscriptions is not None:
            (row,) = session.query(RMQSubscription).all()
            assert (row.dag_id, row.enabled, row.filter_data, row.absent_cycles) == ("d", False, {}, None)
        if shape.connections is not None:
            (known,) = session.query(RMQConnStatus).all()
            assert (known.status, known.consumer_count, known.broker_consumer_count) == ("connected", 3, None)
        session.add(RMQSubscription(dag_id="new", queue_name="q", source="ui", ack_unmatched=True, absent_cycles=1))
        session.merge(RMQConnStatus(conn_id="rmq_default", last_reconcile_at=MOMENT, broker_consumer_count=1))
        session.commit()


def test_columns_that_are_added_may_be_null(shape, engine):
    before = {table: columns(engine, table) for table in (SUBSCRIPTIONS, CONNECTIONS)}

    with closing(Session(engine, future=True)) as session:
        ensure_schema(session)

    for table, present in before.items():
        if present:
            added = {name: column for name, column in columns(engine, table).items() if name not in present}
            assert all(column["nullable"] for column in added.values())


def columns(engine, table):
    inspector = inspect(engine)
    return {column["name"]: column for column in inspector.get_columns(table)} if inspector.has_table(table) else {}


@pytest.mark.parametrize("name", ["no tables", "first release"])
def test_processes_that_migrate_at_once_all_find_it_done(engine, database_url, name):
    SHAPES[name].create(engine)
    starters = 4
    barrier = threading.Barrier(starters)
    errors = []

    def migrate():
        own = create_engine(database_url, future=True, poolclass=NullPool)
        with closing(Session(own, future=True)) as session:
            session.connection()
            barrier.wait(30)
            try:
                ensure_schema(session)
                assert is_schema_ready(session)
            except Exception as error:  # noqa: BLE001 - reported by the test
                errors.append(error)
        own.dispose()

    threads = [threading.Thread(target=migrate) for _ in range(starters)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert errors == []


def test_a_present_schema_is_left_alone(engine):
    """No statement but questions, so no lock that a reader could wait for."""
    from sqlalchemy import event

    with closing(Session(engine, future=True)) as session:
        ensure_schema(session)
    statements = []
    event.listen(engine, "before_cursor_execute", lambda c, cur, statement, *_: statements.append(statement))

    with closing(Session(engine, future=True)) as session:
        ensure_schema(session)

    assert statements
    assert [one for one in statements if one.lstrip().upper().startswith(("ALTER", "CREATE", "LOCK", "SET"))] == []


def test_restarts_are_kept_for_a_week(engine):
    now = datetime.now(timezone.utc).replace(tzinfo=None, microsecond=0)
    with closing(Session(engine, future=True)) as session:
        ensure_schema(session)
        old = WorkerStart("elsewhere", 7, 1, "code 1", MOMENT)
        first, second = (WorkerStart("here", 8, number, "signal SIGKILL", now) for number in (1, 2))

        for start in (old, first, second):
            note_start(session, start)
        assert recent_restarts(session) == [second]

        note_start(session, WorkerStart("here", 8, 0, "", now))
        assert recent_restarts(session) == []
