"""The pool: one attempt for all who ask, bounded waits, and reasons instead of tracebacks."""

import asyncio

import pytest

from airflow_provider_rmq.broker.pool import ConnectionPool
from airflow_provider_rmq.broker.settings import DEFAULT_CONNECT_TIMEOUT
from airflow_provider_rmq.errors import ConnectionLost

pytestmark = pytest.mark.looptime


async def test_an_airflow_connection_that_does_not_exist_is_a_reason():
    async def missing(conn_id):
        raise KeyError(f"The conn_id `{conn_id}` isn't defined")

    with pytest.raises(ConnectionLost, match="Airflow connection gone cannot be read: KeyError"):
        await ConnectionPool(missing, "test").connection("gone")


async def test_after_a_failure_the_next_who_asks_starts_a_new_attempt():
    asked = []

    async def missing(conn_id):
        asked.append(conn_id)
        raise KeyError("not there")

    pool = ConnectionPool(missing, "test")
    for _ in range(3):
        with pytest.raises(ConnectionLost):
            await pool.connection("c")

    assert asked == ["c", "c", "c"]


async def test_a_lookup_that_hangs_costs_each_caller_one_bound_and_is_asked_once(looptime):
    asked = []

    async def hanging(conn_id):
        asked.append(conn_id)
        await asyncio.sleep(3600)

    pool = ConnectionPool(hanging, "test")
    outcomes = await asyncio.gather(*(pool.connection("c") for _ in range(50)), return_exceptions=True)

    assert looptime == DEFAULT_CONNECT_TIMEOUT
    assert all("the attempt goes on" in str(outcome) for outcome in outcomes)
    assert asked == ["c"]
    await pool.close()


async def test_a_hanging_conn_id_holds_up_no_other(looptime):
    async def lookup(conn_id):
        if conn_id == "hanging":
            await asyncio.sleep(3600)
        raise KeyError("not there")

    pool = ConnectionPool(lookup, "test")
    hanging = asyncio.ensure_future(pool.connection("hanging"))
    await asyncio.sleep(1)

    with pytest.raises(ConnectionLost):
        await pool.connection("other")

    assert looptime == 1
    hanging.cancel()
    await pool.close()


async def test_why_there_is_no_connection_is_remembered_by_connection():
    async def missing(conn_id):
        raise KeyError("not there")

    pool = ConnectionPool(missing, "test")
    assert pool.connect_failure("c") is None
    with pytest.raises(ConnectionLost):
        await pool.connection("c")

    assert "KeyError" in pool.connect_failure("c")
    assert pool.connect_failure("other") is None
    assert pool.current("c") is None


async def test_closing_the_pool_ends_an_attempt_for_those_who_wait_for_it():
    async def hanging(conn_id):
        await asyncio.sleep(3600)

    pool = ConnectionPool(hanging, "test")
    waiting = asyncio.ensure_future(pool.connection("c"))
    await asyncio.sleep(1)
    await pool.close()

    with pytest.raises(ConnectionLost, match="given up"):
        await waiting
