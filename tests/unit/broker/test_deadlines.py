"""`call_with_timeout` bounds the caller and never swallows its cancellation."""

import asyncio

import pytest

from airflow_provider_rmq.broker.deadlines import call_with_timeout

pytestmark = pytest.mark.looptime


async def deaf():
    """A client library that does not take no for an answer, for an hour."""
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        await asyncio.sleep(3600)


async def test_a_result_is_passed_on():
    assert await call_with_timeout(asyncio.sleep(1, "done"), 5) == "done"


async def test_an_error_is_passed_on():
    async def fails():
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        await call_with_timeout(fails(), 5)


async def test_the_caller_waits_no_longer_than_its_bound_even_for_a_call_that_ignores_its_cancellation(looptime):
    task = asyncio.ensure_future(deaf())

    with pytest.raises(asyncio.TimeoutError, match="no answer within 5 s"):
        await call_with_timeout(task, 5)

    assert looptime == 5


async def test_a_cancellation_of_the_caller_reaches_the_caller(looptime):
    caller = asyncio.ensure_future(call_with_timeout(deaf(), 60))
    await asyncio.sleep(2)

    caller.cancel()

    with pytest.raises(asyncio.CancelledError):
        await caller
    assert looptime == 2
