"""Cooldown windows on real brokers, without Airflow: what a marker becomes, and what an alarm does to it."""

import asyncio
import logging

import pytest

from airflow_provider_rmq.broker.attachment import QueueSource
from airflow_provider_rmq.broker.consuming import Disposition, consume
from airflow_provider_rmq.broker.declaring import Declarer
from airflow_provider_rmq.broker.pool import Role
from airflow_provider_rmq.broker.publishing import Marker, MarkerOutcome, MarkerPublisher
from airflow_provider_rmq.broker.topology import fire_topology, pending_queue_name, pending_topology
from airflow_provider_rmq.errors import TopologyConflict
from airflow_provider_rmq.messages.backoff import Backoff
from airflow_provider_rmq.messages.filters import MessageFilter
from airflow_provider_rmq.messages.judge import MessageJudge
from airflow_provider_rmq.messages.misses import FilterMissState
from airflow_provider_rmq.messages.settlement import Settlement
from airflow_provider_rmq.watcher.service.cooldown_windows import CooldownWindows
from airflow_provider_rmq.watcher.service.handlers.cooldown import CooldownHandler
from airflow_provider_rmq.watcher.states import Delivered, StartFailed
from airflow_provider_rmq.watcher.subscription import Subscription, SubscriptionKey
from integration.lab.faults import set_alarm
from integration.lab.waiting import wait_until
from integration.vhost import Vhost
from integration.watcher.pools import pool_for

LOG = logging.getLogger(__name__)
DAG_ID = "cooled"
PENDING = pending_queue_name(DAG_ID)


class Heard:
    """An observer that keeps what handlers said."""

    def __init__(self):
        self.events = []

    def attaching(self):
        """Nothing to note."""

    def attached(self, tag, since):
        """Nothing to note."""

    def detached(self, reason):
        """Nothing to note."""

    def queue_missing(self, reason):
        """Nothing to note."""

    def answered(self, event):
        self.events.append(event)

    def unreadable(self, reason):
        """Nothing to note."""


class Attempts:
    """A publisher that counts how often it failed."""

    def __init__(self, publisher):
        self.publisher = publisher
        self.failed = 0

    async def open_window(self, conn_id, marker):
        report = await self.publisher.open_window(conn_id, marker)
        self.failed += not report.outcome.is_open
        return report


@pytest.fixture
async def pool(broker_url, vhost):
    pool = pool_for(broker_url)
    yield pool
    await pool.close()
    for queue in (PENDING, "rmq_watcher.fire"):
        vhost.delete(queue)
    with vhost.channel() as channel:
        channel.exchange_delete("rmq_watcher.fire")


async def declare_all(pool):
    for topology in (fire_topology(), pending_topology(DAG_ID)):
        await Declarer(pool).declare("c", topology)


def taken(vhost, queue):
    """Take one message off a queue."""
    with vhost.channel() as channel:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
    return (method, properties, body) if method else None


async def test_a_marker_waits_its_time_and_arrives_persistent_in_the_fire_queue(pool, vhost):
    await declare_all(pool)
    await declare_all(pool)
    publisher = MarkerPublisher(pool)

    first = await publisher.open_window("c", Marker(dag_id=DAG_ID, cooldown=1))
    second = await publisher.open_window("c", Marker(dag_id=DAG_ID, cooldown=1))

    assert (first.outcome, second.outcome) == (MarkerOutcome.OPENED, MarkerOutcome.OPEN_ALREADY)
    assert vhost.depth("rmq_watcher.fire") == 0
    method, properties, body = await asyncio.to_thread(
        wait_until, lambda: taken(vhost, "rmq_watcher.fire"), 20, "the marker in the fire queue"
    )
    assert (method.routing_key, body, properties.delivery_mode) == (DAG_ID, b"", 2)
    assert properties.message_id
    assert vhost.depth("rmq_watcher.fire") == 0


async def test_a_marker_without_its_queue_is_returned_and_works_again_once_the_queue_is_there(pool, vhost):
    publisher = MarkerPublisher(pool)

    missing = await publisher.open_window("c", Marker(dag_id=DAG_ID, cooldown=60))
    await declare_all(pool)

    assert missing.outcome is MarkerOutcome.RETURNED
    assert PENDING in missing.reason
    assert (await publisher.open_window("c", Marker(dag_id=DAG_ID, cooldown=60))).outcome is MarkerOutcome.OPENED


async def test_a_marker_that_meets_a_full_queue_behind_the_look_finds_the_window_open(pool, vhost, monkeypatch):
    await declare_all(pool)
    publisher = MarkerPublisher(pool)
    await publisher.open_window("c", Marker(dag_id=DAG_ID, cooldown=60))
    monkeypatch.setattr(publisher, "waiting_markers", no_marker_seen)

    report = await publisher.open_window("c", Marker(dag_id=DAG_ID, cooldown=60))

    assert report.outcome is MarkerOutcome.OPEN_ALREADY
    assert vhost.depth(PENDING) == 1


async def no_marker_seen(channel, queue_name):
    return 0


async def test_a_marker_that_comes_back_from_the_broker_opens_no_window(pool, vhost, monkeypatch):
    publisher = MarkerPublisher(pool)
    monkeypatch.setattr(publisher, "waiting_markers", no_marker_seen)

    assert (await publisher.open_window("c", Marker(dag_id=DAG_ID, cooldown=60))).outcome is MarkerOutcome.RETURNED


async def test_a_pending_queue_with_other_arguments_is_named_with_both_values(pool, vhost):
    vhost.declare(PENDING, arguments={"x-max-length": 5})

    with pytest.raises(TopologyConflict, match=r"PRECONDITION_FAILED.*(rmq_watcher\.pending\.cooled)") as caught:
        await Declarer(pool).declare("c", pending_topology(DAG_ID))

    assert "given was" in str(caught.value)
    assert "it has" in str(caught.value)
    await Declarer(pool).declare("c", fire_topology())


async def test_a_quorum_pending_queue_gets_one_marker_a_window_and_two_processes_meet_in_one_run(
    broker_lab, monkeypatch
):
    """L27."""
    broker_lab.management().create_vhost("quorum", default_queue_type="quorum")
    vhost = Vhost(broker_lab.amqp_url(vhost="quorum"))
    pools = [pool_for(vhost.url) for _ in range(2)]
    await declare_all(pools[0])
    alone = MarkerPublisher(pools[0])

    outcomes = [(await alone.open_window("c", Marker(dag_id=DAG_ID, cooldown=2))).outcome for _ in range(5)]
    assert outcomes == [MarkerOutcome.OPENED, *[MarkerOutcome.OPEN_ALREADY] * 4]
    await asyncio.to_thread(wait_until, lambda: taken(vhost, "rmq_watcher.fire"), 20, "the marker")
    assert taken(vhost, "rmq_watcher.fire") is None

    # Both have looked before either publishes: the queue takes both, and they carry the same id.
    publishers = [MarkerPublisher(pool, clock=lambda: 1000.0) for pool in pools]
    for publisher in publishers:
        monkeypatch.setattr(publisher, "waiting_markers", no_marker_seen)
    reports = await asyncio.gather(
        *(publisher.open_window("c", Marker(dag_id=DAG_ID, cooldown=2)) for publisher in publishers)
    )
    assert [report.outcome for report in reports] == [MarkerOutcome.OPENED] * 2
    markers = [
        await asyncio.to_thread(wait_until, lambda: taken(vhost, "rmq_watcher.fire"), 20, "a marker") for _ in range(2)
    ]
    assert len({properties.message_id for _, properties, _ in markers}) == 1
    for pool in pools:
        await pool.close()


async def test_an_alarm_costs_one_redelivery_an_attempt_and_leaves_acknowledgements_alone(broker_lab):
    """L33. A publish that times out costs its own delivery one return; those behind it wait in the handler."""
    broker_lab.management().create_vhost("alarmed")
    vhost = Vhost(broker_lab.amqp_url(vhost="alarmed"))
    vhost.declare("orders", arguments={"x-queue-type": "quorum"})
    vhost.declare("events")
    pool = pool_for(vhost.url, rpc_timeout=2)
    await declare_all(pool)
    publisher = MarkerPublisher(pool)
    await Declarer(pool).declare("c", pending_topology("first"))
    vhost.publish("orders", *(str(number) for number in range(20)))
    vhost.publish("events", *(str(number) for number in range(5)))
    stop, heard, events_heard, times_delivered = asyncio.Event(), Heard(), Heard(), []
    subscription = Subscription(id=1, key=SubscriptionKey(DAG_ID, "orders", "c"), cooldown=60)
    judge = MessageJudge(message_filter=MessageFilter(None), misses=FilterMissState("orders", LOG))
    attempts = Attempts(publisher)
    handle = CooldownHandler(subscription, CooldownWindows(attempts, lambda: "c").of(DAG_ID), judge, stop)

    async def counted(message):
        times_delivered.append(message.text())
        return await handle(message)

    async def acknowledged(message):
        return Disposition(settlement=Settlement.ACK, event=Delivered())

    def consuming(queue, handler, observer):
        source = QueueSource(pool, "c", queue, f"rmqtest.{queue}", 20)
        return asyncio.ensure_future(consume(source, handler, observer, stop=stop, window=20, pauses=Backoff(0.5, 5)))

    set_alarm(broker_lab, "memory")
    # The broker blocks a connection with the first publish it meets in an alarm, and takes that one.
    assert (await publisher.open_window("c", Marker(dag_id="first", cooldown=60))).outcome is MarkerOutcome.OPENED
    before = await pool.connection("c", Role.PUBLISH)
    consumers = [consuming("orders", counted, heard)]
    try:
        await until(lambda: failures(heard))
        consumers.append(consuming("events", acknowledged, events_heard))
        await until(lambda: len(events_heard.events) == 5)
        await until(lambda: broker_lab.management().get("queues/alarmed/events").get("messages") == 0)
        # The second time-out in a row drops the publishing connection; the alarm may take the first publish of the
        # next one, so there need not be a third (seen on 3.10.8).
        await until(lambda: len(failures(heard)) >= 2)
        assert len(failures(heard)) <= attempts.failed
    finally:
        set_alarm(broker_lab, "memory", raised=False)
    await until(lambda: len(heard.events) - len(failures(heard)) == 20)
    after = await pool.connection("c", Role.PUBLISH)
    stop.set()
    await asyncio.gather(*consumers)
    await pool.close()

    assert after.amqp is not before.amqp
    assert len(failures(heard)) == attempts.failed
    assert len(times_delivered) == 20 + attempts.failed
    assert "no confirmation of the marker within 2 s" in failures(heard)[0].reason
    assert vhost.depth("orders") == vhost.depth("events") == 0
    assert vhost.depth(PENDING) == 1


async def test_a_window_outlives_a_restart_of_the_broker(broker_lab):
    """L26."""
    broker_lab.management().create_vhost("restarted")
    vhost = Vhost(broker_lab.amqp_url(vhost="restarted"))
    pool = pool_for(vhost.url)
    await declare_all(pool)
    opened = await MarkerPublisher(pool).open_window("c", Marker(dag_id=DAG_ID, cooldown=2))
    await pool.close()

    await asyncio.to_thread(broker_lab.stop)
    await asyncio.to_thread(broker_lab.start)

    assert opened.outcome is MarkerOutcome.OPENED
    method, _, _ = await asyncio.to_thread(
        wait_until, lambda: taken(vhost, "rmq_watcher.fire"), 20, "the marker of the time before"
    )
    assert method.routing_key == DAG_ID


def failures(heard):
    return [event for event in heard.events if isinstance(event, StartFailed)]


async def until(condition):
    await asyncio.to_thread(wait_until, condition, 90, "the consumer to have come so far")
