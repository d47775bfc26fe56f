"""B41, R31: a broker that takes deliveries back because they were held too long, without an Airflow."""

import asyncio
from collections import Counter

import pytest

from airflow_provider_rmq.broker.attachment import QueueSource
from airflow_provider_rmq.messages.filters import MessageFilter
from airflow_provider_rmq.messages.judge import MessageJudge
from airflow_provider_rmq.messages.misses import FilterMissState
from airflow_provider_rmq.watcher.service import subscription_task
from airflow_provider_rmq.watcher.service.dag_runs import StartOutcome
from airflow_provider_rmq.watcher.service.handlers.immediate import ImmediateHandler
from airflow_provider_rmq.watcher.states import SubscriptionStatus
from airflow_provider_rmq.watcher.subscription import Subscription, SubscriptionKey
from integration.lab.broker_lab import BrokerLab
from integration.lab.lab_state import LabSettings
from integration.lab.waiting import wait_until
from integration.vhost import Vhost
from integration.watcher.pools import pool_for

COUNT = 500
#: Seconds after which this broker closes the channel of a delivery that is not settled.
CONSUMER_TIMEOUT = 3


class Database:
    """Refuses runs until it is well again, and then knows which run it has."""

    def __init__(self):
        self.is_well = False
        self.runs = Counter()

    async def start(self, dag_id, run_id, conf):
        await asyncio.sleep(0.001)
        if not self.is_well:
            raise ConnectionError("the database is down")
        self.runs[run_id] += 1
        return StartOutcome.CREATED if self.runs[run_id] == 1 else StartOutcome.DUPLICATE


class Open:
    """A gate without a DAG behind it."""

    async def admit(self, dag_id, report):
        """Let everybody in."""


@pytest.fixture(scope="module")
def impatient(tmp_path_factory):
    settings = LabSettings(
        settings=(f"consumer_timeout = {CONSUMER_TIMEOUT * 1000}",), env=("rabbit.channel_tick_interval=1000",)
    )
    with BrokerLab(tmp_path_factory.mktemp("impatient")) as lab:
        lab.up(settings)
        yield lab


async def test_what_the_broker_took_back_starts_its_runs_later_and_once(impatient, caplog):
    url = impatient.amqp_url()
    vhost, queue = Vhost(url), "rmqtest.impatient"
    await asyncio.to_thread(vhost.declare, queue)
    ids = (f"m{number}" for number in range(COUNT))
    await asyncio.to_thread(lambda: vhost.publish(queue, *["{}"] * COUNT, message_ids=ids))
    caplog.set_level("INFO")
    database, rows, pool = Database(), [], pool_for(url)
    subscription = Subscription(id=1, key=SubscriptionKey("orders", queue, "rmq_default"))
    judge = MessageJudge(message_filter=MessageFilter(), misses=FilterMissState(queue, subscription_task.log))
    task = subscription_task.SubscriptionTask(
        subscription,
        QueueSource(pool, "rmq_default", queue, "rmqtest", subscription_task.WINDOW),
        ImmediateHandler(subscription, database, judge),
        Open(),
        lambda _, row: rows.append(row),
    )
    running = asyncio.ensure_future(task.run())

    def channel_was_closed():
        return any((row.error and "consumer_timeout" in row.error) or "timeout" in (row.error or "") for row in rows)

    try:
        await asyncio.to_thread(
            wait_until, channel_was_closed, 90, "the broker to lose its patience", show=lambda: rows
        )
        database.is_well = True
        await asyncio.to_thread(
            wait_until, lambda: len(database.runs) == COUNT, 120, "all runs", show=lambda: rows[-3:]
        )
        await asyncio.to_thread(
            wait_until, lambda: task.state.reported is SubscriptionStatus.LISTENING, 60, "listening"
        )
    finally:
        task.stop.set()
        await running
        await pool.close()

    assert any(row.status is SubscriptionStatus.ERROR and "the database is down" in row.error for row in rows)
    assert await asyncio.to_thread(vhost.depth, queue) == 0
