"""One attempt a window in flight (L33), whoever waits for it."""

import asyncio
from itertools import pairwise

import pytest

from airflow_provider_rmq.broker.publishing import Marker, MarkerOutcome, MarkerReport
from airflow_provider_rmq.watcher.service.cooldown_windows import LONGEST_WAIT, CooldownWindows

pytestmark = pytest.mark.looptime

MARKER = Marker(dag_id="d", cooldown=300)
OPENED = MarkerReport(MarkerOutcome.OPENED)
TIMED_OUT = MarkerReport(MarkerOutcome.TIMED_OUT, "silence")


class Publisher:
    """Answers each attempt, after some seconds, with the next report; the last one repeats."""

    def __init__(self, *reports, seconds=30.0):
        self.reports, self.seconds = list(reports), seconds
        self.attempts = []
        self.running = self.most_running = 0

    async def open_window(self, conn_id, marker):
        self.attempts.append((conn_id, marker.dag_id, asyncio.get_running_loop().time()))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(self.seconds)
        self.running -= 1
        report = self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]
        if isinstance(report, Exception):
            raise report
        return report


def windows(publisher, conn_id=lambda: "c"):
    return CooldownWindows(publisher, conn_id)


async def test_all_who_come_meanwhile_share_the_success_of_one_attempt():
    publisher = Publisher(OPENED)
    window = windows(publisher).of("d")

    reports = await asyncio.gather(*(window.ensure_open(MARKER, asyncio.Event()) for _ in range(20)))

    assert len(publisher.attempts) == 1
    assert [report.outcome for report in reports].count(MarkerOutcome.OPENED) == 1
    assert all(report.outcome.is_open for report in reports)


async def test_a_failed_attempt_is_told_to_one_and_the_others_wait_for_the_next():
    publisher = Publisher(TIMED_OUT, TIMED_OUT, OPENED)
    window = windows(publisher).of("d")

    reports = await asyncio.gather(*(window.ensure_open(MARKER, asyncio.Event()) for _ in range(20)))

    assert publisher.most_running == 1
    assert [report.outcome for report in reports].count(MarkerOutcome.TIMED_OUT) == 2
    assert sum(report.outcome.is_open for report in reports) == 18
    begun = [moment for _, _, moment in publisher.attempts]
    assert [later - earlier for earlier, later in pairwise(begun)] == [31, 32]


async def test_dags_have_windows_of_their_own():
    publisher = Publisher(OPENED)
    found = windows(publisher)

    await asyncio.gather(*(found.of(dag).ensure_open(Marker(dag_id=dag, cooldown=1), asyncio.Event()) for dag in "abc"))

    assert publisher.most_running == 3
    assert found.of("a") is found.of("a")


async def test_a_success_starts_the_pause_over():
    publisher = Publisher(TIMED_OUT, TIMED_OUT, OPENED, TIMED_OUT, seconds=0)
    window = windows(publisher).of("d")
    rests = []
    for _ in range(4):
        await window.ensure_open(MARKER, asyncio.Event())
        rests.append(round(window.pause.rest(), 3))

    assert rests == [1, 2, 0, 1]


async def test_a_stop_ends_the_wait_at_once_and_the_attempt_goes_on(looptime):
    publisher = Publisher(OPENED)
    window = windows(publisher).of("d")
    stop = asyncio.Event()
    waiting = [asyncio.ensure_future(window.ensure_open(MARKER, stop)) for _ in range(3)]
    await asyncio.sleep(1)

    stop.set()

    assert await asyncio.gather(*waiting) == [None, None, None]
    assert looptime == 1
    later = await window.ensure_open(MARKER, asyncio.Event())
    assert later.outcome is MarkerOutcome.OPEN_ALREADY
    assert len(publisher.attempts) == 1


async def test_a_delivery_that_has_waited_too_long_goes_back_unheard(looptime):
    window = windows(Publisher(TIMED_OUT)).of("d")

    reports = await asyncio.gather(*(window.ensure_open(MARKER, asyncio.Event()) for _ in range(40)))

    assert reports.count(None) > 0
    assert LONGEST_WAIT <= looptime <= LONGEST_WAIT + 31


async def test_a_fault_of_ours_is_a_failure_and_does_not_end_the_window(caplog):
    publisher = Publisher(KeyError("x"), OPENED)
    window = windows(publisher).of("d")

    first = await window.ensure_open(MARKER, asyncio.Event())
    second = await window.ensure_open(MARKER, asyncio.Event())

    assert (first.outcome, second.outcome) == (MarkerOutcome.FAILED, MarkerOutcome.OPENED)
    assert "KeyError" in caplog.text


async def test_the_marker_goes_to_the_connection_in_force():
    conn_ids = ["a"]
    publisher = Publisher(OPENED)
    window = windows(publisher, lambda: conn_ids[0]).of("d")

    await window.ensure_open(MARKER, asyncio.Event())
    conn_ids[0] = "b"
    await window.ensure_open(MARKER, asyncio.Event())

    assert [conn_id for conn_id, _, _ in publisher.attempts] == ["a", "b"]
