"""The one loop: attach, decide, settle, tell; again after a failure; in order at a stop."""

import asyncio

import pytest
from broker.fakes import FakeQueue
from broker.journal import Journal

from airflow_provider_rmq.broker.consuming import Disposition, consume
from airflow_provider_rmq.errors import ConnectionLost, QueueMissing
from airflow_provider_rmq.messages.backoff import Backoff
from airflow_provider_rmq.messages.settlement import Settlement

pytestmark = pytest.mark.looptime


async def acknowledge(message):
    return Disposition(settlement=Settlement.ACK, event=message.text())


class Consumer:
    """The loop under test, running."""

    def __init__(self, queue, handler=acknowledge, window=4):
        self.journal = Journal()
        self.stop = asyncio.Event()
        self.task = asyncio.ensure_future(
            consume(queue, handler, self.journal, stop=self.stop, window=window, pauses=Backoff(1, 4))
        )

    async def stopped(self):
        self.stop.set()
        await self.task


async def test_every_message_is_settled_and_told_of():
    queue = FakeQueue("a", "b", "c")
    consumer = Consumer(queue)
    await asyncio.sleep(1)

    await consumer.stopped()

    assert sorted(queue.settled) == [(body, Settlement.ACK) for body in "abc"]
    assert consumer.journal.lines[:2] == ["attaching", "attached tag-0"]
    assert sorted(consumer.journal.lines[2:-1]) == ["answered a", "answered b", "answered c"]
    assert consumer.journal.lines[-1] == "detached: None"


async def test_no_more_deliveries_are_answered_at_once_than_the_window_holds():
    running = []
    most = []

    async def slow(message):
        running.append(message)
        most.append(len(running))
        await asyncio.sleep(1)
        running.remove(message)
        return Disposition(settlement=Settlement.ACK)

    queue = FakeQueue(*"abcdefghij")
    consumer = Consumer(queue, slow, window=3)
    await asyncio.sleep(10)
    await consumer.stopped()

    assert max(most) == 3
    assert len(queue.settled) == 10


async def test_a_stop_lets_running_answers_end_and_leaves_the_rest_in_the_queue():
    async def slow(message):
        await asyncio.sleep(5)
        return Disposition(settlement=Settlement.ACK)

    queue = FakeQueue(*"abcdef")
    consumer = Consumer(queue, slow, window=2)
    await asyncio.sleep(1)

    await consumer.stopped()

    assert queue.settled == [("a", Settlement.ACK), ("b", Settlement.ACK)]


async def test_a_pause_closes_the_intake_before_the_message_comes_back(looptime):
    taken_at = []

    async def failing(message):
        taken_at.append(asyncio.get_running_loop().time())
        return Disposition(settlement=Settlement.REQUEUE, pause=10)

    queue = FakeQueue("a")
    consumer = Consumer(queue, failing)
    await asyncio.sleep(25)
    await consumer.stopped()

    assert [round(moment) for moment in taken_at] == [0, 10, 20]


async def test_a_stop_ends_a_pause_at_once(looptime):
    async def failing(message):
        return Disposition(settlement=Settlement.REQUEUE, pause=1000)

    consumer = Consumer(FakeQueue("a"), failing)
    await asyncio.sleep(1)

    await consumer.stopped()

    assert looptime < 2


async def test_a_refused_attach_is_tried_again_with_growing_pauses(looptime):
    queue = FakeQueue("a", refusals=[ConnectionLost("no route"), ConnectionLost("no route")])
    consumer = Consumer(queue)
    await asyncio.sleep(3.5)  # pauses of 1 s and 2 s
    await consumer.stopped()

    assert consumer.journal.lines[:6] == [
        "attaching",
        "detached: ConnectionLost: no route",
        "attaching",
        "detached: ConnectionLost: no route",
        "attaching",
        "attached tag-0",
    ]
    assert queue.settled == [("a", Settlement.ACK)]


async def test_a_missing_queue_is_told_apart_and_looked_for_again():
    queue = FakeQueue("a", refusals=[QueueMissing("no queue orders")])
    consumer = Consumer(queue)
    await asyncio.sleep(2)
    await consumer.stopped()

    assert consumer.journal.lines[1] == "missing: QueueMissing: no queue orders"
    assert queue.settled == [("a", Settlement.ACK)]


async def test_a_settlement_that_cannot_be_sent_is_not_told_of_and_ends_the_pass():
    queue = FakeQueue("a")
    queue.broken = True
    consumer = Consumer(queue)
    await asyncio.sleep(0.5)
    await consumer.stopped()

    assert "answered a" not in consumer.journal.lines
    assert "detached: ConnectionLost: the link is gone" in consumer.journal.lines


async def test_a_registration_lost_while_nothing_arrives_is_attached_again():
    queue = FakeQueue()
    consumer = Consumer(queue)
    await asyncio.sleep(0.5)

    queue.attachments[0].abort(ConnectionLost("cancelled by the broker"))
    await asyncio.sleep(1.5)
    queue.put(b"late")
    await asyncio.sleep(0.5)
    await consumer.stopped()

    assert "attached tag-1" in consumer.journal.lines
    assert queue.settled == [("late", Settlement.ACK)]


async def test_a_handler_that_raises_settles_nothing_and_ends_the_pass(caplog):
    async def broken(message):
        raise KeyError("oops")

    queue = FakeQueue("a")
    consumer = Consumer(queue, broken)
    await asyncio.sleep(0.5)
    await consumer.stopped()

    assert queue.settled == []
    assert any("handler failed" in line for line in consumer.journal.lines)
    assert "KeyError" in caplog.text


async def test_a_cancelled_loop_ends_cancelled():
    consumer = Consumer(FakeQueue())
    await asyncio.sleep(0.5)

    consumer.task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await consumer.task
