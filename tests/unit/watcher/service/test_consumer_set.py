"""The consumers of a process: what the check is told of them, what it makes of them, and who is left behind."""

import asyncio
from types import SimpleNamespace

import pytest
from broker.fakes import FakeQueue

from airflow_provider_rmq.broker.consuming import Disposition
from airflow_provider_rmq.messages.settlement import Settlement
from airflow_provider_rmq.watcher.service import reconcile
from airflow_provider_rmq.watcher.service.liveness import Answered, Seen, Strikes, judge_connection
from airflow_provider_rmq.watcher.service.reconcile import ConsumerSet
from airflow_provider_rmq.watcher.service.subscription_task import SubscriptionTask
from airflow_provider_rmq.watcher.states import SubscriptionStatus
from airflow_provider_rmq.watcher.subscription import Subscription, SubscriptionKey

pytestmark = pytest.mark.looptime

LISTENING, ERROR = SubscriptionStatus.LISTENING, SubscriptionStatus.ERROR


def subscription(number, conn_id="c"):
    return Subscription(id=number, key=SubscriptionKey(f"dag{number}", f"q{number}", conn_id))


async def admit(dag_id, report):
    return


async def acknowledge(message):
    return Disposition(settlement=Settlement.ACK)


class World:
    def __init__(self):
        self.queues, self.rows, self.made, self.counted = {}, {}, [], []
        self.consumers = ConsumerSet(self.make, self.rows.pop)

    def make(self, wanted):
        self.made.append(wanted.id)
        queue = self.queues.setdefault(wanted.key.queue_name, FakeQueue())
        return SubscriptionTask(wanted, queue, acknowledge, SimpleNamespace(admit=admit), self.report)

    def report(self, wanted, row):
        self.rows[wanted.id] = row


@pytest.fixture
async def world(monkeypatch):
    world = World()
    monkeypatch.setattr(reconcile, "incr", lambda name: world.counted.append(str(name)))
    await world.consumers.reconcile([subscription(1), subscription(2), subscription(3, "other")])
    await asyncio.sleep(1)
    yield world
    await world.consumers.stop()


async def test_the_question_holds_the_registrations_of_one_connection(world):
    question = world.consumers.question("c")

    assert sorted(item.key.queue_name for item in question.asked) == ["q1", "q2"]
    assert question.live == 2
    assert not any(item.is_lost_here for item in question.asked)
    assert world.consumers.question("unknown").live == 0


async def test_a_tag_our_own_channel_has_lost_is_part_of_the_question(world):
    world.queues["q1"].attachments[0].holds_registration = False

    lost = [item.key.queue_name for item in world.consumers.question("c").asked if item.is_lost_here]

    assert lost == ["q1"]


async def test_a_denial_shows_in_the_row_at_once_and_a_confirmation_takes_it_back(world):
    question = world.consumers.question("c")
    denied, _ = judge_connection(question, Seen(frozenset(), 0, 10.0**6), Strikes())
    confirmed, _ = judge_connection(question, Answered(), Strikes())

    world.consumers.tell(denied)
    assert {world.rows[number].status for number in (1, 2)} == {ERROR}
    assert "check 1 of 2" in world.rows[1].error
    assert world.rows[3].status is LISTENING
    world.consumers.tell(confirmed)

    assert {row.status for row in world.rows.values()} == {LISTENING}


async def test_a_verdict_about_a_tag_that_was_replaced_meanwhile_changes_nothing(world):
    """L31."""
    denied, _ = judge_connection(world.consumers.question("c"), Seen(frozenset(), 0, 10.0**6), Strikes())
    await world.queues["q1"].attachments[0].set_prefetch(40)
    task = world.consumers._running[subscription(1).consumer_key].work
    task.attached(world.queues["q1"].attachments[0].tag, 0.0)

    world.consumers.tell(denied)

    assert world.rows[1].status is LISTENING
    assert world.rows[2].status is ERROR


async def test_a_restart_touches_the_condemned_alone(world):
    await world.consumers.restart([subscription(1).consumer_key, subscription(9).consumer_key])
    await asyncio.sleep(1)

    assert world.made == [1, 2, 3, 1]
    assert world.counted == ["rmq_watcher.consumer_restarted"]
    assert [len(world.queues[name].attachments) for name in ("q1", "q2", "q3")] == [2, 1, 1]
    assert world.rows[1].status is LISTENING


async def test_a_consumer_that_does_not_end_is_left_behind_and_counted(world, looptime):
    async def forever():
        while True:
            try:
                await asyncio.sleep(10**6)
            except asyncio.CancelledError:
                if looptime > 200:
                    raise

    stuck = asyncio.ensure_future(forever())
    world.consumers._running[subscription(1).consumer_key].task = stuck
    await asyncio.sleep(0)
    before = looptime.now if hasattr(looptime, "now") else asyncio.get_running_loop().time()

    await world.consumers.restart([subscription(1).consumer_key])

    assert asyncio.get_running_loop().time() - before == pytest.approx(5, abs=0.1)
    assert world.counted == ["rmq_watcher.tasks_abandoned", "rmq_watcher.consumer_restarted"]
    await asyncio.sleep(300)
    stuck.cancel()
