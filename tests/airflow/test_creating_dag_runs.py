"""`compat.create_dag_run` and `compat.dag_states` on Airflow's own database."""

import threading
from uuid import uuid4

import pytest
from airflow.models import DagRun
from airflow.models.param import Param

from airflow_provider_rmq import compat
from airflow_provider_rmq.compat import DagState, RunCreation, create_dag_run, dag_states
from airflow_provider_rmq.errors import DagRunRefused
from airflow_provider_rmq.utils.executor import BoundedExecutor
from airflow_provider_rmq.watcher.models import WatcherSession
from airflow_provider_rmq.watcher.service.dag_runs import RunStarter


@pytest.fixture
def dag_id(make_dag):
    name = f"dag_{uuid4().hex[:8]}"
    make_dag(name)
    return name


def runs_of(session, dag_id):
    session.rollback()
    return session.query(DagRun).filter(DagRun.dag_id == dag_id).order_by(DagRun.id).all()


def test_a_run_is_queued_manual_and_carries_the_conf(session, dag_id):
    assert create_dag_run(dag_id, "rmq__q__1", {"body": "x", "headers": {"a": [1, None]}}) is RunCreation.CREATED

    (run,) = runs_of(session, dag_id)
    assert (run.run_id, run.state, run.run_type) == ("rmq__q__1", "queued", "manual")
    assert run.conf == {"body": "x", "headers": {"a": [1, None]}}
    assert run.external_trigger


def test_the_same_run_id_is_a_duplicate(session, dag_id):
    create_dag_run(dag_id, "rmq__q__1", {})

    assert create_dag_run(dag_id, "rmq__q__1", {}) is RunCreation.DUPLICATE
    assert len(runs_of(session, dag_id)) == 1


def test_many_runs_in_one_second_are_all_created(session, dag_id):
    for number in range(30):
        assert create_dag_run(dag_id, f"rmq__q__{number}", {}) is RunCreation.CREATED

    assert len(runs_of(session, dag_id)) == 30


def test_a_stranger_at_the_same_moment_gets_another_microsecond(session, dag_id, monkeypatch):
    """Both unique keys of Airflow 2 answer with the same error, and its text names our run id in either case."""
    frozen = compat.datetime.now(compat.timezone.utc)

    class Frozen(compat.datetime):
        @classmethod
        def now(cls, tz=None):
            return frozen

    monkeypatch.setattr(compat, "datetime", Frozen)

    outcomes = [create_dag_run(dag_id, f"rmq__q__{number}", {}) for number in range(5)]

    assert outcomes == [RunCreation.CREATED] * 5
    assert len({run.execution_date for run in runs_of(session, dag_id)}) == 5


def test_two_threads_with_the_same_message_make_one_run(session, dag_id):
    start = threading.Barrier(2)
    outcomes = []

    def create():
        start.wait()
        outcomes.append(create_dag_run(dag_id, "rmq__q__same", {}))

    threads = [threading.Thread(target=create) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcome.name for outcome in outcomes) == ["CREATED", "DUPLICATE"]
    assert len(runs_of(session, dag_id)) == 1


def test_a_dag_without_a_serialized_version_is_not_found(make_dag):
    make_dag("not_serialized", serialized=False)

    assert create_dag_run("not_serialized", "rmq__q__1", {}) is RunCreation.DAG_NOT_FOUND


def test_conf_that_the_dags_params_refuse_is_an_error_that_names_the_param(make_dag):
    from airflow.models.param import Param

    make_dag("picky", params={"order": Param(type="integer")})

    with pytest.raises(Exception, match="order"):
        create_dag_run("picky", "rmq__q__1", {"order": "no number"})


def test_the_state_of_each_dag_is_told_with_two_queries(session, make_dag):
    make_dag("ready")
    make_dag("paused", paused=True)
    make_dag("inactive", active=False)
    make_dag("unserialized", serialized=False)

    states = dag_states(session, ["ready", "paused", "inactive", "unserialized", "unknown"])

    assert states == {
        "ready": DagState.READY,
        "paused": DagState.PAUSED,
        "inactive": DagState.INACTIVE,
        "unserialized": DagState.NOT_SERIALIZED,
        "unknown": DagState.MISSING,
    }
    assert dag_states(session, []) == {}


async def test_a_dag_whose_params_refuse_the_conf_is_told_from_an_outage_and_names_the_param(make_dag):
    """B27."""
    make_dag("params_refuse", params={"order": Param(type="integer")})
    starter = RunStarter(BoundedExecutor("test", 1), WatcherSession, 1)

    with pytest.raises(DagRunRefused, match=r"DAG params_refuse does not take .*order"):
        await starter.start("params_refuse", "rmq__q__1", {"body": "x"})
