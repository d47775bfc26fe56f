"""A message nobody can decode: the others of its queue go on, it is named, kept, and missed when it is gone."""

import asyncio

import pytest
from broker.fakes import FakeQueue
from broker.journal import Journal

from airflow_provider_rmq.broker.consuming import Disposition, consume
from airflow_provider_rmq.broker.quarantine import FIRST_HOLD, RETURNS_WITHIN
from airflow_provider_rmq.messages.backoff import Backoff
from airflow_provider_rmq.messages.settlement import Settlement

pytestmark = pytest.mark.looptime


@pytest.fixture
async def consuming():
    stops = []

    def start(queue, window=4):
        handled, journal, stop = [], Journal(), asyncio.Event()

        async def acknowledge(message):
            handled.append(message.text())
            return Disposition(settlement=Settlement.ACK)

        task = asyncio.ensure_future(
            consume(queue, acknowledge, journal, stop=stop, window=window, pauses=Backoff(1, 4))
        )
        stops.append((stop, task))
        return handled, journal

    yield start
    for stop, task in stops:
        stop.set()
        await task


def told(journal):
    return [line for line in journal.lines if line.startswith("unreadable")]


async def test_the_others_go_on_and_the_poison_reaches_no_handler(consuming):
    queue = FakeQueue("poison", *"abcdef", prefetch=4)

    handled, journal = consuming(queue)
    await asyncio.sleep(1)

    assert handled == list("abcdef")
    assert [body for body, _ in queue.settled] == list("abcdef")
    (line,) = told(journal)
    assert "it is poison" in line
    assert "ackmode=ack_requeue_false" in line


async def test_poison_is_given_back_after_a_growing_time_and_never_acknowledged(consuming):
    queue = FakeQueue("poison")
    consuming(queue)

    await asyncio.sleep(FIRST_HOLD - 1)
    assert queue.settled == []
    await asyncio.sleep(2)
    assert queue.settled == [("poison", Settlement.REQUEUE)]
    await asyncio.sleep(2 * FIRST_HOLD - 2)
    assert len(queue.settled) == 1
    await asyncio.sleep(2)
    assert len(queue.settled) == 2
    await asyncio.sleep(60)

    assert {settlement for _, settlement in queue.settled} == {Settlement.REQUEUE}
    assert len(queue.settled) == 4  # after 5, 10, 20 and 40 seconds


async def test_as_much_poison_as_the_window_holds_stops_nobody(consuming):
    queue = FakeQueue(*(f"poison{number}" for number in range(30)), *"abc", prefetch=4)

    handled, journal = consuming(queue)
    await asyncio.sleep(1)

    assert handled == list("abc")
    assert len(told(journal)) == 1


async def test_poison_that_does_not_come_again_is_gone(consuming):
    queue = FakeQueue("poison")
    _, journal = consuming(queue)
    await asyncio.sleep(1)
    queue.delivered[0].queue = FakeQueue()  # what goes back is taken by somebody else

    await asyncio.sleep(FIRST_HOLD + RETURNS_WITHIN - 2)
    assert len(told(journal)) == 1
    await asyncio.sleep(2)

    assert told(journal)[1:] == ["unreadable: None"]


async def test_after_a_lost_connection_it_is_still_known_until_it_fails_to_come(consuming):
    from airflow_provider_rmq.errors import ConnectionLost

    queue = FakeQueue("poison")
    _, journal = consuming(queue)
    await asyncio.sleep(1)
    queue.attachments[0].abort(ConnectionLost("cut"))
    await asyncio.sleep(1 + RETURNS_WITHIN - 1)
    assert len(told(journal)) == 1

    await asyncio.sleep(2)

    assert told(journal)[1:] == ["unreadable: None"]


async def test_it_is_logged_on_powers_of_ten(consuming, caplog):
    consuming(FakeQueue(*(f"poison{number}" for number in range(30)), prefetch=100), window=50)
    await asyncio.sleep(1)

    lines = [record for record in caplog.records if "header cannot be decoded" in record.message]
    assert len(lines) == 2
