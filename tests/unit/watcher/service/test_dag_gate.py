"""No consumer attaches before Airflow knows its DAG, and none waits for ever."""

import asyncio

import pytest

from airflow_provider_rmq.compat import DagState
from airflow_provider_rmq.watcher.service.dag_gate import HOLD_LIMIT, DagGate

pytestmark = pytest.mark.looptime


class Airflow:
    """The states of DAGs, and who asked for which."""

    def __init__(self, **states):
        self.states = states
        self.asked = []

    async def read(self, dag_ids):
        self.asked.append(sorted(dag_ids))
        if self.states is None:
            raise OSError("database gone")
        return {dag_id: self.states.get(dag_id, DagState.MISSING) for dag_id in dag_ids}


@pytest.mark.parametrize("state", [DagState.READY, DagState.PAUSED])
async def test_a_known_dag_is_admitted_at_once(looptime, state):
    await DagGate(Airflow(d=state).read).admit("d", pytest.fail)

    assert looptime == 0


async def test_an_unknown_dag_waits_until_it_is_serialized_and_says_why(looptime):
    airflow = Airflow()
    reasons = []
    waiting = asyncio.ensure_future(DagGate(airflow.read).admit("d", reasons.append))
    await asyncio.sleep(3.5)
    airflow.states["d"] = DagState.NOT_SERIALIZED
    await asyncio.sleep(3)
    assert not waiting.done()

    airflow.states["d"] = DagState.READY
    await waiting

    assert looptime < 8
    assert "waiting until Airflow can start DAG d: it is missing" in reasons
    assert "waiting until Airflow can start DAG d: it is not serialized" in reasons


async def test_one_question_serves_all_who_wait():
    airflow = Airflow()
    gate = DagGate(airflow.read)
    waiting = [asyncio.ensure_future(gate.admit(f"d{number}", lambda _: None)) for number in range(50)]
    await asyncio.sleep(5.5)

    assert len(airflow.asked) <= 7
    assert max(len(asked) for asked in airflow.asked) == 50
    for task in waiting:
        task.cancel()


async def test_a_database_that_refuses_is_a_reason_and_is_asked_again():
    airflow = Airflow()
    airflow.states = None
    reasons = []
    waiting = asyncio.ensure_future(DagGate(airflow.read).admit("d", reasons.append))
    await asyncio.sleep(2)
    airflow.states = {"d": DagState.READY}

    await waiting

    assert "Airflow's database cannot be asked: OSError: database gone" in reasons


async def test_after_the_hold_limit_nothing_is_held_back(looptime):
    await DagGate(Airflow().read).admit("never_serialized", lambda _: None)

    assert HOLD_LIMIT <= looptime < HOLD_LIMIT + 3


async def test_an_admitted_dag_is_not_asked_for_again():
    airflow = Airflow(d=DagState.READY)
    gate = DagGate(airflow.read)
    await gate.admit("d", pytest.fail)

    await gate.admit("d", pytest.fail)

    assert len(airflow.asked) == 1
