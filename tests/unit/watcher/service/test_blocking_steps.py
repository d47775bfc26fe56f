"""Blocking steps: bounded, one attempt in flight, not waited for once the watcher stops."""

import asyncio
import threading

import pytest

from airflow_provider_rmq.utils.executor import BoundedExecutor
from airflow_provider_rmq.watcher.service.steps import BlockingSteps, StepAbandoned, StepSkipped, StepTimedOut


@pytest.fixture
def counted(monkeypatch):
    names = []
    monkeypatch.setattr("airflow_provider_rmq.watcher.service.steps.incr", lambda name: names.append(str(name)))
    return names


@pytest.fixture
def steps():
    executor = BoundedExecutor("test", 2)
    release = threading.Event()
    yield BlockingSteps(executor, timeout=60), release
    release.set()
    executor.shutdown(wait=True)


async def test_a_step_that_hangs_costs_its_bound_and_is_not_started_again_while_it_runs(steps, counted):
    blocking, release = steps

    with pytest.raises(StepTimedOut, match="scan: no end within"):
        await blocking.run("scan", release.wait, bound=0.05)
    with pytest.raises(StepSkipped, match="still runs"):
        await blocking.run("scan", release.wait, bound=0.05)
    assert await blocking.run("sync", lambda: 5) == 5
    release.set()

    async def again():
        while True:
            try:
                return await blocking.run("scan", lambda: 7)
            except StepSkipped:
                await asyncio.sleep(0.01)

    assert await again() == 7
    assert counted[0] == "rmq_watcher.cycle_step_timed_out"
    assert set(counted[1:]) == {"rmq_watcher.cycle_step_skipped"}


async def test_a_stop_does_not_wait_for_a_step(steps, counted):
    blocking, release = steps
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, stop.set)

    with pytest.raises(StepAbandoned):
        await blocking.run("scan", release.wait, until=stop)

    assert counted == []
