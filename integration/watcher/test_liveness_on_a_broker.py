"""Probes, recovery and pool on real brokers and broken links, without Airflow."""

import asyncio
import time
from collections import Counter, defaultdict
from functools import partial
from types import SimpleNamespace
from urllib.parse import urlsplit, urlunsplit

import pytest

from airflow_provider_rmq.broker.attachment import QueueSource
from airflow_provider_rmq.broker.consumer_listing import list_consumers
from airflow_provider_rmq.broker.consuming import Disposition
from airflow_provider_rmq.broker.pool import ConnectionPool, Role
from airflow_provider_rmq.broker.probes import require_answer
from airflow_provider_rmq.errors import ConnectionLost
from airflow_provider_rmq.messages.settlement import Settlement
from airflow_provider_rmq.watcher.service.liveness import REPORTING_LAG
from airflow_provider_rmq.watcher.service.reconcile import ConsumerSet
from airflow_provider_rmq.watcher.service.recovery import Probes, Recovery
from airflow_provider_rmq.watcher.service.subscription_task import SubscriptionTask
from airflow_provider_rmq.watcher.states import ConnectionStatus, Row, SubscriptionStatus
from airflow_provider_rmq.watcher.subscription import Subscription, SubscriptionKey
from integration.lab.fault_proxy import ProxyThread
from integration.lab.waiting import wait_until
from integration.watcher.pools import lookup_for

CONNECTED, ERROR, DEGRADED = ConnectionStatus.CONNECTED, ConnectionStatus.ERROR, ConnectionStatus.DEGRADED
LISTENING = SubscriptionStatus.LISTENING


async def admit(dag_id, report):
    return


class Watcher:
    """Consumers and their liveness check on the brokers of a lookup."""

    def __init__(self, lookup):
        self.pool = ConnectionPool(lookup, "rmqtest")
        self.rows = defaultdict(lambda: Row(SubscriptionStatus.CONNECTING, None))
        self.bodies, self.tasks, self.reports = [], {}, Counter()
        self.consumers = ConsumerSet(self.make, lambda _: None)
        self.recovery = Recovery(
            self.consumers,
            Probes(
                list_consumers=lambda conn_id: self.list(lookup, conn_id),
                require_answer=partial(require_answer, self.pool),
                is_connected=lambda conn_id: self.pool.current(conn_id) is not None,
                connect_failure=self.pool.connect_failure,
                recreate=partial(self.pool.recreate, role=Role.CONSUME),
            ),
            self.later,
        )

    @staticmethod
    async def list(lookup, conn_id):
        return await list_consumers(await lookup(conn_id))

    @staticmethod
    def later():
        """A clock beyond the broker's reporting lag: the registrations of a test are young."""
        return time.monotonic() + REPORTING_LAG + 1

    def make(self, wanted):
        source = QueueSource(self.pool, wanted.key.conn_id, wanted.key.queue_name, f"rmqtest.{wanted.id}", 5)
        task = SubscriptionTask(wanted, source, self.handle, SimpleNamespace(admit=admit), self.report)
        self.tasks[wanted.id] = task
        return task

    async def handle(self, message):
        self.bodies.append(message.text())
        return Disposition(settlement=Settlement.ACK)

    def report(self, wanted, row):
        self.rows[wanted.id] = row
        self.reports[wanted.id] += row.status is SubscriptionStatus.ERROR

    async def start(self, *keys):
        wanted = [Subscription(id=n, key=SubscriptionKey(f"d{n}", queue, conn)) for n, (queue, conn) in enumerate(keys)]
        await self.consumers.reconcile(wanted)

    async def listening(self, *numbers):
        await soon(lambda: all(self.rows[n].status is LISTENING for n in numbers), f"{numbers} to listen", self.rows)

    async def check(self, conn_id="c"):
        return (await self.recovery.check([conn_id]))[conn_id]


async def soon(condition, what, show=None):
    return await asyncio.to_thread(wait_until, condition, 30, what, show=lambda: show)


@pytest.fixture
async def watch():
    made = []

    def start(lookup):
        made.append(Watcher(lookup))
        return made[-1]

    yield start
    for watcher in made:
        await watcher.consumers.stop()
        await watcher.pool.close()


@pytest.fixture
def queues(vhost, queue_name):
    names = [vhost.declare(f"{queue_name}.{number}") for number in range(2)]
    yield names
    for name in names:
        vhost.delete(name)


def proxied(url, port):
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{port}"))


async def test_the_list_confirms_our_tags_counts_foreign_consumers_and_denies_a_tag_it_does_not_hold(
    watch, broker_url, management_url, vhost, queues
):
    watcher = watch(lookup_for(broker_url, management_url))
    await watcher.start((queues[0], "c"), (queues[1], "c"))
    await watcher.listening(0, 1)
    with vhost.channel() as channel:
        channel.basic_consume(queues[0], lambda *_: None)

        report = await until_connected(watcher, 3)

        assert (report.status, report.consumers, report.broker_consumers) == (CONNECTED, 2, 3)
    watcher.tasks[0].attached("rmqtest.no.such.tag", 0.0)
    first, second = await watcher.check(), await watcher.check()

    assert "check 1 of 2" in first.error
    assert "check 2 of 2" in second.error
    await watcher.listening(0, 1)
    assert (await until_connected(watcher, 2)).consumers == 2


async def until_connected(watcher, count):
    """The management API shows a consumer a moment after its registration."""
    end = time.monotonic() + 30
    while True:
        watcher.recovery._strikes.clear()
        report = await watcher.check()
        if (report.status is CONNECTED and report.broker_consumers == count) or time.monotonic() > end:
            return report


async def test_a_wrong_management_url_is_no_data_once_and_then_a_passive_declare(watch, broker_url, queues):
    """B57."""
    watcher = watch(lookup_for(broker_url, "http://127.0.0.1:1"))
    await watcher.start((queues[0], "c"))
    await watcher.listening(0)

    reports = [await watcher.check() for _ in range(3)]

    assert [report.status for report in reports] == [None, CONNECTED, CONNECTED]
    assert {report.broker_consumers for report in reports} == {None}


async def test_a_queue_that_returns_is_consumed_within_five_seconds_without_a_cycle(watch, broker_url, vhost, queues):
    """L2, L32, B39: what takes longer than the growing pauses' limit would be a wait for a cycle."""
    missing = f"{queues[0]}.missing"
    watcher = watch(lookup_for(broker_url))
    await watcher.start((queues[0], "c"), (missing, "c"), (queues[1], "c"))
    await watcher.listening(0, 2)
    vhost.delete(queues[0])
    await soon(lambda: "does not exist" in (watcher.rows[0].error or ""), "the row to say so", watcher.rows)
    await soon(lambda: "does not exist" in (watcher.rows[1].error or ""), "the row to say so", watcher.rows)
    await soon(lambda: min(watcher.reports[0], watcher.reports[1]) >= 5, "the pauses to grow to their limit")

    for queue in (queues[0], missing):
        vhost.declare(queue)
    declared = time.monotonic()
    await watcher.listening(0, 1)

    print(f"consuming again {time.monotonic() - declared:.1f} s after the queue's return")
    for queue in (queues[0], missing):
        vhost.publish(queue, queue)
    await soon(lambda: {queues[0], missing} <= set(watcher.bodies), "both messages")
    assert watcher.rows[2].status is LISTENING
    vhost.delete(missing)


async def test_a_silent_link_is_condemned_by_two_checks_and_consumed_through_again_when_it_heals(
    watch, broker_url, vhost, queues
):
    parts = urlsplit(broker_url)
    with ProxyThread((parts.hostname, parts.port or 5672)) as proxy:
        watcher = watch(lookup_for(proxied(broker_url, proxy.port), rpc_timeout=1, connect_timeout=1))
        await watcher.start((queues[0], "c"))
        await watcher.listening(0)
        proxy.order("blackhole")

        first, second = await watcher.check(), await watcher.check()

        assert (first.status, second.status) == (ERROR, ERROR)
        assert "no answer within 1 s (check 1 of 2)" in first.error
        assert watcher.rows[0].status is not LISTENING
        await soon(lambda: "no connection" in (watcher.rows[0].error or ""), "the new attempt to fail", watcher.rows)
        third = await watcher.check()
        assert third.status is ERROR
        proxy.order("normal")
        await watcher.listening(0)
        vhost.publish(queues[0], "healed")
        await soon(lambda: watcher.bodies == ["healed"], "the message", watcher.bodies)
        assert (await watcher.check()).status is CONNECTED


async def test_fifty_subscriptions_of_an_unreachable_broker_share_one_attempt_and_hold_up_nobody(
    watch, broker_url, vhost, queues
):
    parts = urlsplit(broker_url)
    with ProxyThread((parts.hostname, parts.port or 5672)) as proxy:
        proxy.order("drop")
        unreachable = lookup_for(proxied(broker_url, proxy.port), connect_timeout=2)
        good = lookup_for(broker_url)
        watcher = watch(lambda conn_id: good(conn_id) if conn_id == "good" else unreachable(conn_id))

        await watcher.start(*[(f"q{number}", "bad") for number in range(50)], (queues[0], "good"))
        await watcher.listening(50)
        vhost.publish(queues[0], "x")
        await soon(lambda: watcher.bodies == ["x"], "the message")

        assert all(watcher.rows[number].error is None for number in range(50))  # still on their first attempt
        assert len(proxy.proxy.links) == 1
        await soon(lambda: all(watcher.rows[n].error for n in range(50)), "all to say why", watcher.rows)
        assert "no connection to the broker of bad" in watcher.rows[0].error
        assert (await watcher.check("bad")).status is ERROR


async def test_a_connection_that_only_looks_open_is_replaced(watch, broker_url, queues):
    watcher = watch(lookup_for(broker_url))
    await watcher.start((queues[0], "c"))
    await watcher.listening(0)
    held = watcher.pool.current("c")
    held.amqp.transport.connection._reader_task.cancel()
    await soon(lambda: not held.amqp.transport.connection.is_opened, "the reader to end")

    assert watcher.pool.current("c") is not held
    fresh = await watcher.pool.connection("c")

    assert fresh.amqp is not held.amqp
    await watcher.listening(0)


async def test_a_probe_without_an_open_connection_opens_none(broker_url):
    pool = ConnectionPool(lookup_for(broker_url), "rmqtest")

    with pytest.raises(ConnectionLost, match="no open connection"):
        await require_answer(pool, "c")

    assert pool.current("c") is None
