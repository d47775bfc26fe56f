"""Airflow's metadata database on SQLite, made once for this folder; where it lies is `tests/conftest.py`'s part."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

#: Airflow 2.11 warns about its own deprecations while it is imported and used.
AIRFLOWS_OWN = "ignore::DeprecationWarning"


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(AIRFLOWS_OWN))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="session", autouse=True)
def metadata_database():
    """Migrate in a process of its own: Airflow's migrations leave logging and warnings as they like them."""
    program = "from airflow.utils.db import initdb; initdb()"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture
def session():
    """A session of Airflow's engine; the tables of the watcher are there and empty."""
    from airflow_provider_rmq.watcher.models import RMQConnStatus, RMQSubscription, WatcherSession
    from airflow_provider_rmq.watcher.rows.schema import ensure_schema

    with closing(WatcherSession()) as session:
        ensure_schema(session)
        for model in (RMQSubscription, RMQConnStatus):
            session.query(model).delete()
        session.commit()
        yield session
        session.rollback()


@pytest.fixture
def make_dag(session):
    """Make a DAG that Airflow holds active, unpaused and serialized, or less than that."""
    from airflow import DAG
    from airflow.models import DagModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.operators.empty import EmptyOperator
    from airflow.utils import timezone

    def make(dag_id, *, active=True, paused=False, serialized=True, params=None):
        with DAG(dag_id, schedule=None, start_date=timezone.datetime(2024, 1, 1), params=params) as dag:
            EmptyOperator(task_id="nothing")
        dag.sync_to_db(session=session)
        model = session.get(DagModel, dag_id)
        model.is_active, model.is_paused = active, paused
        if serialized:
            SerializedDagModel.write_dag(dag, session=session)
        session.commit()
        return dag

    return make


@pytest.fixture(scope="module")
def app(metadata_database):
    """Airflow's web application with a person for each role."""
    from web_app import make_app_with_people

    return make_app_with_people()


@pytest.fixture
def person(app, session):
    """Log somebody in by the role."""
    from web_app import Person

    return lambda role: Person(app, role)


@pytest.fixture
def admin(person):
    """Somebody who may do everything, with a form open."""
    from web_app import BASE

    admin = person("Admin")
    admin.get(f"{BASE}/create")
    return admin


@pytest.fixture
def stored(session):
    """Store a subscription; its id."""
    from airflow_provider_rmq.watcher.models import RMQSubscription

    def store(**changes):
        fields = {"dag_id": "d", "queue_name": "q", "conn_id": "rmq_default", "source": "ui", "enabled": True}
        row = RMQSubscription(**(fields | changes))
        session.add(row)
        session.commit()
        return row.id

    return store
