"""The newest status of each row reaches the database, whatever fails meanwhile."""

import asyncio

import pytest

from airflow_provider_rmq.watcher.service.status_writer import StatusWriter
from airflow_provider_rmq.watcher.states import Row, SubscriptionStatus

pytestmark = pytest.mark.looptime

CONNECTING = Row(SubscriptionStatus.CONNECTING, None)
LISTENING = Row(SubscriptionStatus.LISTENING, None)
ERROR = Row(SubscriptionStatus.ERROR, "boom")


class Database:
    def __init__(self):
        self.writes = []
        self.failures = 0

    async def write(self, rows):
        if self.failures:
            self.failures -= 1
            raise OSError("database gone")
        self.writes.append(dict(rows))


@pytest.fixture
async def running():
    database = Database()
    writer = StatusWriter(database.write)
    stop = asyncio.Event()
    task = asyncio.ensure_future(writer.run(stop))
    yield writer, database
    stop.set()
    await task


async def test_a_change_is_written_soon_and_only_once(running):
    writer, database = running

    writer.report(1, LISTENING)
    await asyncio.sleep(1)
    writer.report(1, LISTENING)
    await asyncio.sleep(5)

    assert database.writes == [{1: LISTENING}]


async def test_changes_that_come_together_are_written_together_and_the_newest_wins(running):
    writer, database = running

    writer.report(1, CONNECTING)
    writer.report(2, CONNECTING)
    writer.report(1, LISTENING)
    await asyncio.sleep(1)

    assert database.writes == [{1: LISTENING, 2: CONNECTING}]


async def test_a_failed_write_is_tried_again_with_what_is_true_by_then(running, caplog):
    writer, database = running
    database.failures = 2

    writer.report(1, ERROR)
    await asyncio.sleep(1.5)
    writer.report(1, LISTENING)
    await asyncio.sleep(10)

    assert database.writes == [{1: LISTENING}]
    assert "OSError: database gone" in caplog.text


async def test_a_repetition_writes_every_row_again(running):
    writer, database = running
    writer.report(1, LISTENING)
    writer.report(2, ERROR)
    await asyncio.sleep(1)

    writer.repeat_all()
    await asyncio.sleep(1)

    assert database.writes == [{1: LISTENING, 2: ERROR}] * 2


async def test_a_forgotten_row_is_not_repeated(running):
    writer, database = running
    writer.report(1, LISTENING)
    await asyncio.sleep(1)

    writer.forget(1)
    writer.repeat_all()
    await asyncio.sleep(1)

    assert database.writes == [{1: LISTENING}]
