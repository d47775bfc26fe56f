"""What the liveness check asks, in which order, and what it does about the answers."""

import asyncio

import pytest

from airflow_provider_rmq.broker.consumer_listing import ConsumerListing
from airflow_provider_rmq.broker.management import NoManagementUrl
from airflow_provider_rmq.errors import ConnectionLost, ManagementUnavailable
from airflow_provider_rmq.watcher.service.liveness import Asked, Question
from airflow_provider_rmq.watcher.service.recovery import Probes, Recovery
from airflow_provider_rmq.watcher.states import ConnectionStatus, Registration
from airflow_provider_rmq.watcher.subscription import ConsumerKey

pytestmark = pytest.mark.looptime

CONNECTED, ERROR = ConnectionStatus.CONNECTED, ConnectionStatus.ERROR


class World:
    """Two consumers on a broker that answers as told, and everything that was done."""

    def __init__(self, *, listing=None, answer=None):
        self.listing, self.answer = listing, answer
        self.done = []
        self.attached = ("t1", "t2")
        self.live = 2
        self.failure = None
        self.connected = True
        probes = Probes(
            list_consumers=self.list_consumers,
            require_answer=self.require_answer,
            is_connected=lambda _: self.connected,
            connect_failure=lambda _: self.failure,
            recreate=self.recreate,
        )
        self.recovery = Recovery(self, probes, lambda: 1000.0)

    async def list_consumers(self, conn_id):
        self.done.append("list")
        if isinstance(self.listing, Exception):
            raise self.listing
        return self.listing

    async def require_answer(self, conn_id, queue_name):
        self.done.append(f"ask {queue_name}")
        if self.answer is not None:
            raise self.answer

    async def recreate(self, conn_id):
        self.done.append("recreate")

    def question(self, conn_id):
        asked = tuple(
            Asked(ConsumerKey(n, f"q{n}", conn_id), Registration(tag, 0.0)) for n, tag in enumerate(self.attached, 1)
        )
        return Question(asked=asked, live=self.live, reason="trigger fails")

    def tell(self, verdict):
        self.done += [f"deny {item.key.queue_name}" for item in verdict.denied]

    async def restart(self, keys):
        self.done.append(f"restart {sorted(key.queue_name for key in keys)}")

    async def cycle(self):
        self.done = []
        return (await self.recovery.check(["c"]))["c"]


def listing(**by_queue):
    return ConsumerListing({queue: tuple(tags) for queue, tags in by_queue.items()})


async def test_with_a_management_api_the_list_decides_and_counts_the_queues_that_were_asked_about():
    world = World(listing=listing(q1=["t1", "foreign"], q2=["t2"], other=["x", "y"]))

    report = await world.cycle()

    assert (report.status, report.consumers, report.broker_consumers) == (CONNECTED, 2, 3)
    assert world.done == ["list"]


async def test_without_one_a_passive_declare_vouches_for_all_and_gives_no_number():
    world = World(listing=NoManagementUrl("none"))

    report = await world.cycle()

    assert (report.status, report.broker_consumers) == (CONNECTED, None)
    assert world.done == ["list", "ask q1"]


async def test_the_denied_one_is_told_first_and_restarted_on_a_new_connection_the_second_time():
    world = World(listing=listing(q1=[], q2=["t2"]))

    first = await world.cycle()
    assert first.status is ERROR
    assert world.done == ["list", "deny q1"]
    await world.cycle()

    assert world.done == ["list", "deny q1", "recreate", "restart ['q1']"]


async def test_a_failing_api_is_no_data_once_and_then_the_passive_way_answers_as_long_as_it_fails(caplog):
    """B57."""
    world = World(listing=ManagementUnavailable("HTTP 504"))

    assert (await world.cycle()).status is None
    assert world.done == ["list"]
    for _ in range(3):
        assert (await world.cycle()).status is CONNECTED
        assert world.done == ["list", "ask q1"]
    world.listing = listing(q1=["t1"], q2=["t2"])
    assert (await world.cycle()).broker_consumers == 2
    world.listing = ManagementUnavailable("HTTP 504")

    assert (await world.cycle()).status is None
    assert caplog.text.count("HTTP 504") == 3  # the first and the second of a row, and the first of the next


async def test_an_airflow_connection_that_cannot_be_read_takes_the_same_way():
    world = World(listing=ManagementUnavailable("Airflow connection c cannot be read"), answer=ConnectionLost("hangs"))

    await world.cycle()
    await world.cycle()
    assert world.done == ["list", "ask q1", "deny q1", "deny q2"]
    await world.cycle()

    assert world.done[-2:] == ["recreate", "restart ['q1', 'q2']"]


async def test_a_hung_probe_counts_as_dead():
    world = World(listing=NoManagementUrl("none"), answer=ConnectionLost("c: no answer within 30 s"))

    report = await world.cycle()

    assert report.status is ERROR
    assert "no answer within 30 s" in report.error


async def test_an_idle_connection_is_asked_itself_in_the_second_cycle():
    world = World(listing=NoManagementUrl("none"))
    world.attached = ()

    assert (await world.cycle()).status is None
    assert world.done == []
    report = await world.cycle()

    assert world.done == ["ask None"]
    assert "behind it: trigger fails" in report.error


@pytest.mark.parametrize(("failure", "status"), [(None, None), ("port refused", ERROR)])
async def test_without_a_connection_there_is_nothing_to_ask_and_nothing_to_recreate(failure, status):
    """Consumers that wait for their DAG have not connected; those that cannot connect say why, and not `degraded`."""
    world = World(answer=ConnectionLost("there is no open connection"))
    world.attached, world.connected, world.failure = (), False, failure

    reports = [await world.cycle() for _ in range(4)]

    assert {(report.status, report.error) for report in reports} == {(status, failure)}
    assert world.done == []


async def test_a_connection_nobody_consumes_on_is_not_asked():
    world = World()
    world.attached, world.live, world.failure = (), 0, "port refused"

    report = await world.cycle()

    assert (report.status, report.error, report.consumers) == (ERROR, "port refused", 0)
    assert world.done == []


async def test_connections_are_asked_side_by_side(looptime):
    class Slow(World):
        async def list_consumers(self, conn_id):
            await asyncio.sleep(30)
            return listing(q1=["t1"], q2=["t2"])

    reports = await Slow().recovery.check([f"c{number}" for number in range(20)])

    assert len(reports) == 20
    assert looptime == 30


async def test_a_connection_that_is_no_longer_named_is_forgotten():
    world = World(listing=listing(q1=[], q2=["t2"]))
    await world.cycle()
    await world.recovery.check([])

    assert "check 1 of 2" in (await world.cycle()).error
