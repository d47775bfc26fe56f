"""A secrets backend that hangs on one conn_id holds one thread, however often it is asked for."""

import asyncio
import threading

import pytest

from airflow_provider_rmq.utils.executor import BoundedExecutor
from airflow_provider_rmq.watcher.service import connection_lookups
from airflow_provider_rmq.watcher.service.connection_lookups import ConnectionLookups


@pytest.fixture
def hanging(monkeypatch):
    monkeypatch.setattr(connection_lookups, "LOOKUP_TIMEOUT", 0.05)
    executor, release, asked = BoundedExecutor("test", 2), threading.Event(), []

    def read(conn_id):
        asked.append(conn_id)
        if conn_id == "hanging":
            release.wait()
        if conn_id == "missing":
            raise KeyError(conn_id)
        return conn_id

    yield ConnectionLookups(executor, read), release, asked
    release.set()
    executor.shutdown(wait=True)


async def test_many_who_ask_share_one_attempt_and_others_go_on(hanging):
    lookups, release, asked = hanging

    outcomes = await asyncio.gather(*(lookups.look_up("hanging") for _ in range(50)), return_exceptions=True)

    assert {type(outcome) for outcome in outcomes} == {asyncio.TimeoutError}
    assert asked == ["hanging"]
    assert await lookups.look_up("good") == "good"
    release.set()


async def test_a_caller_that_is_cancelled_cancels_nobody_else(hanging):
    lookups, release, _ = hanging
    impatient = asyncio.ensure_future(lookups.look_up("hanging"))
    await asyncio.sleep(0)
    patient = asyncio.ensure_future(lookups.look_up("hanging"))
    await asyncio.sleep(0)

    impatient.cancel()
    release.set()

    assert await patient == "hanging"


async def test_a_change_is_seen_by_the_next_who_asks(hanging):
    lookups, _, asked = hanging

    for _ in range(2):
        with pytest.raises(KeyError):
            await lookups.look_up("missing")

    assert asked == ["missing", "missing"]
