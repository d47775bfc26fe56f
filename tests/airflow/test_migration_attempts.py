"""When a process tries to change the tables: asked in every cycle, changed less and less often, never twice."""

import os
import subprocess
import sys
from itertools import pairwise

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from airflow_provider_rmq.watcher.rows.schema import SchemaMigration, SchemaNotReady, ensure_schema, migrate_at_load


@pytest.fixture
def writable(tmp_path):
    """An empty SQLite database."""
    with Session(create_engine(f"sqlite:///{tmp_path}/tables.db", future=True), future=True) as session:
        session.connection()
        yield session


@pytest.fixture
def refusing(tmp_path, writable):
    """The same database, opened so that every change is refused."""
    engine = create_engine(f"sqlite:///file:{tmp_path}/tables.db?mode=ro&uri=true", future=True)
    writable.rollback()
    (tmp_path / "tables.db").touch()
    with Session(engine, future=True) as session:
        yield session


class Clock:
    """Moves when told."""

    now = 1000.0

    def __call__(self):
        return self.now


def test_failures_space_the_attempts_and_the_work_of_another_process_is_seen_at_once(refusing, writable):
    clock = Clock()
    migration = SchemaMigration(clock)
    tried = []
    for _ in range(60):  # an hour of cycles
        try:
            migration.attempt(refusing)
        except SchemaNotReady:
            pass
        except SQLAlchemyError:
            tried.append(clock.now)
        refusing.rollback()
        clock.now += 60

    pauses = [later - earlier for earlier, later in pairwise(tried)]
    assert pauses[:5] == [60, 60, 120, 240, 300]
    assert set(pauses[5:]) == {300}

    ensure_schema(writable)
    migration.attempt(refusing)
    assert migration.ready


def test_a_database_that_does_not_answer_is_asked_again_with_the_next_cycle(tmp_path, writable):
    clock = Clock()
    migration = SchemaMigration(clock)
    with Session(create_engine(f"sqlite:///{tmp_path}/no/such/folder/x.db", future=True)) as unreachable:
        for _ in range(3):
            with pytest.raises(SQLAlchemyError):
                migration.attempt(unreachable)

    migration.attempt(writable)
    assert migration.ready


def test_loading_the_plugin_changes_no_database(tmp_path):
    """L20: every process of Airflow loads it, and none but the watcher and the web server may lock tables."""
    program = (
        "from airflow import plugins_manager, settings\n"
        "plugins_manager.ensure_plugins_loaded()\n"
        "assert any(plugin.name == 'rmq_watcher' for plugin in plugins_manager.plugins)\n"
        "from sqlalchemy import inspect\n"
        "print([name for name in inspect(settings.engine).get_table_names() if name.startswith('rmq')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={
            **os.environ,
            "AIRFLOW_HOME": str(tmp_path),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/empty.db",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
    )

    assert done.stdout.strip().splitlines()[-1:] == ["[]"], done.stderr[-2000:]


def test_a_web_server_whose_database_is_away_goes_on_with_a_warning(tmp_path, writable, caplog):
    unreachable = create_engine(f"sqlite:///{tmp_path}/no/such/folder/x.db", future=True)

    assert not migrate_at_load(lambda: Session(unreachable, future=True))
    assert "could not be brought to their present shape" in caplog.text

    assert migrate_at_load(lambda: Session(writable.get_bind(), future=True))
