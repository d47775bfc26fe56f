"""A bounded pool runs blocking calls and refuses those beyond its capacity."""

import threading

import pytest

from airflow_provider_rmq.utils.executor import BoundedExecutor, PoolSaturated


@pytest.fixture
def pool():
    pool = BoundedExecutor("test", 2)
    yield pool
    pool.shutdown(wait=True)


async def test_a_call_runs_in_a_named_thread_and_its_answer_comes_back(pool):
    assert (await pool.run(lambda: threading.current_thread().name)).startswith("test")


async def test_an_error_comes_back_as_it_is(pool):
    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda: 1 / 0)


def test_capacity_is_three_times_the_workers_and_beyond_it_calls_are_refused(pool):
    gate = threading.Event()
    futures = [pool.submit(gate.wait, 10) for _ in range(6)]

    assert pool.capacity == pool.in_flight == 6
    with pytest.raises(PoolSaturated, match="test"):
        pool.submit(gate.wait)

    gate.set()
    assert [future.result(10) for future in futures] == [True] * 6


def test_a_finished_call_frees_its_place(pool):
    pool.submit(int).result(10)
    pool.shutdown(wait=True)

    assert pool.in_flight == 0


def test_a_pool_that_is_shut_down_takes_no_calls_and_counts_none(pool):
    pool.shutdown(wait=True)

    with pytest.raises(RuntimeError):
        pool.submit(int)
    assert pool.in_flight == 0


def test_a_pool_needs_a_worker():
    with pytest.raises(ValueError, match="max_workers"):
        BoundedExecutor("test", 0)
