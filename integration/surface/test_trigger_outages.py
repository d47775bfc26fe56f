"""A trigger while its broker is away: it waits on, ends in time, and lets itself be cancelled (R33)."""

import asyncio
from urllib.parse import urlsplit

import pytest

from airflow_provider_rmq.triggers.rmq import RMQTrigger
from integration.lab.waiting import wait_until
from integration.vhost import Vhost

QUEUE = "rmqtest.outage"


@pytest.fixture
def lab_vhost(fault_lab, airflow_connection):
    parts = urlsplit(fault_lab.amqp_url())
    airflow_connection("lab", host="127.0.0.1", port=parts.port, login="guest", password="guest", schema="/")
    vhost = Vhost(fault_lab.amqp_url())
    vhost.declare(QUEUE)
    yield vhost
    vhost.delete(QUEUE)


async def event_of(trigger):
    running = trigger.run()
    try:
        return (await anext(running)).payload
    finally:
        await running.aclose()


async def test_push_triggers_outlive_a_broker_that_was_away(fault_lab, lab_vhost):
    waiting, timing_out, cancelled = (
        asyncio.ensure_future(event_of(RMQTrigger("lab", QUEUE, mode="push", message_wait_timeout=timeout)))
        for timeout in (None, 6, None)
    )
    await asyncio.to_thread(wait_until, lambda: lab_vhost.consumers(QUEUE) == 3, 10, "the consumers")
    await asyncio.to_thread(fault_lab.kill)
    try:
        cancelled.cancel()
        await asyncio.wait({cancelled}, timeout=60)  # closing is bounded; without that it would wait for the broker
        assert cancelled.cancelled()

        assert await asyncio.wait_for(timing_out, 30) == {"status": "timeout"}
    finally:
        await asyncio.to_thread(fault_lab.start)
    await asyncio.to_thread(lab_vhost.publish, QUEUE, "after the outage")

    assert (await asyncio.wait_for(waiting, 60))["message"]["body"] == "after the outage"
