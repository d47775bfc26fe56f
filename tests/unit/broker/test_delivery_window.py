"""The window: rejected messages are held, matches pass them, and it is as wide as the misses ask for, no wider."""

import asyncio

import pytest
from broker.fakes import FakeQueue
from broker.journal import Journal

from airflow_provider_rmq.broker.consuming import Disposition, consume
from airflow_provider_rmq.messages.backoff import Backoff
from airflow_provider_rmq.messages.settlement import Settlement

pytestmark = pytest.mark.looptime

WINDOW = 4


async def only_matches(message):
    if message.text().startswith("match"):
        return Disposition(settlement=Settlement.ACK)
    return Disposition(settlement=Settlement.REQUEUE, hold=0.1)


class Consumer:
    def __init__(self, queue):
        self.stop = asyncio.Event()
        self.journal = Journal()
        work = consume(queue, only_matches, self.journal, stop=self.stop, window=WINDOW, pauses=Backoff(1, 4))
        self.task = asyncio.ensure_future(work)

    async def stopped(self):
        self.stop.set()
        await self.task


def matched(queue):
    return [body for body, settlement in queue.settled if settlement is Settlement.ACK]


def returned(queue):
    return [body for body, settlement in queue.settled if settlement is Settlement.REQUEUE]


async def test_a_miss_goes_back_after_a_moment_and_comes_again():
    queue = FakeQueue("miss", prefetch=WINDOW)
    consumer = Consumer(queue)
    await asyncio.sleep(2.05)
    await consumer.stopped()

    assert 5 <= len(returned(queue)) <= 20


async def test_matches_behind_misses_do_not_wait_for_them(looptime):
    queue = FakeQueue("miss 1", "miss 2", "match 1", "miss 3", "match 2", prefetch=WINDOW)
    consumer = Consumer(queue)
    await asyncio.sleep(1)
    await consumer.stopped()

    assert matched(queue) == ["match 1", "match 2"]


async def test_a_match_behind_many_misses_is_found_and_the_window_shrinks_again():
    queue = FakeQueue(*(f"miss {number}" for number in range(1000)), "match", prefetch=WINDOW)
    consumer = Consumer(queue)
    for _ in range(600):
        await asyncio.sleep(0.1)
        if matched(queue):
            break
    widest = max(queue.prefetches)
    for _ in range(1200):
        queue.ready.clear()  # somebody purges the queue, and the misses that came back
        await asyncio.sleep(0.05)
    await consumer.stopped()

    assert matched(queue) == ["match"]
    assert 500 < widest <= 2048
    assert queue.prefetches[-1] == WINDOW


async def test_without_misses_the_window_stays_as_it_is():
    queue = FakeQueue(*(f"match {number}" for number in range(500)), prefetch=WINDOW)
    consumer = Consumer(queue)
    await asyncio.sleep(20)
    await consumer.stopped()

    assert len(matched(queue)) == 500
    assert queue.prefetches == []
    assert queue.most_unsettled <= WINDOW


async def test_every_delivery_is_settled_once_or_goes_back_with_the_channel():
    queue = FakeQueue(*(f"miss {number}" for number in range(50)), *(f"match {number}" for number in range(50)))
    consumer = Consumer(queue)
    await asyncio.sleep(3)
    await consumer.stopped()

    assert sorted(matched(queue)) == sorted(f"match {number}" for number in range(50))
    settled = [delivery for delivery in queue.delivered if delivery.settlement is not None]
    assert len(settled) == len(queue.settled)


async def test_what_is_held_goes_back_in_the_end_even_while_messages_keep_coming():
    queue = FakeQueue("miss", prefetch=WINDOW)
    consumer = Consumer(queue)
    for number in range(200):
        queue.put(f"match {number}".encode())
        await asyncio.sleep(0.05)
    seen = returned(queue)
    await consumer.stopped()

    assert seen
