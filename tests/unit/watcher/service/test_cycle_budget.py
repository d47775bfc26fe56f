"""The cycle: phases that survive on their own, a budget for all of them, an end in order whatever hangs."""

import asyncio
import logging
from types import SimpleNamespace

import pytest

from airflow_provider_rmq.errors import RMQError
from airflow_provider_rmq.watcher.declarations import Listing
from airflow_provider_rmq.watcher.rows.sync import SyncPlan
from airflow_provider_rmq.watcher.service import loop as loop_module
from airflow_provider_rmq.watcher.service.loop import CooldownConnection, CycleTimedOut, Phase, WatcherLoop
from airflow_provider_rmq.watcher.service.status_writer import StatusWriter
from airflow_provider_rmq.watcher.tunables import Timing

pytestmark = pytest.mark.looptime


class Journal:
    """Stands for everything a loop calls at its end."""

    def __init__(self):
        self.done = []

    async def stop(self):
        self.done.append("consumers stopped")

    async def close(self):
        self.done.append("connections closed")


class ScriptedLoop(WatcherLoop):
    """A loop whose phases the test writes."""

    script: tuple = ()

    @property
    def phases(self):
        return self.script


@pytest.fixture
def counted(monkeypatch):
    names = []
    monkeypatch.setattr("airflow_provider_rmq.watcher.service.loop.incr", lambda name: names.append(str(name)))
    return names


def make_loop(journal, *phases, timing=None, write=None):
    async def ignore(rows):
        journal.done.append("rows written")

    made = ScriptedLoop(
        memory=loop_module.Memory(declarations=SimpleNamespace(read=None)),
        session=None,
        steps=None,
        consumers=journal,
        statuses=StatusWriter(write or ignore),
        pool=journal,
        provisioner=None,
        recovery=None,
        troubles=None,
        cooldown_conn=CooldownConnection(),
        timing=timing or Timing(),
    )
    made.script = phases
    return made


def phase(name, work):
    return Phase(name, work)


async def hang():
    await asyncio.sleep(10**6)


async def test_a_phase_that_fails_does_not_end_the_cycle_and_the_cycle_counts(counted, caplog):
    ran = []

    async def fail():
        raise RMQError("no database")

    async def crash():
        raise KeyError("oops")

    async def work():
        ran.append(asyncio.get_running_loop().time())

    stop = asyncio.Event()
    loop = make_loop(Journal(), phase("scan", fail), phase("sync", crash), phase("reconcile", work))
    running = asyncio.ensure_future(loop.run(stop))
    await asyncio.sleep(61)
    stop.set()
    await running

    assert ran == [0, 60]
    assert counted == ["rmq_watcher.cycle_completed"] * 2
    assert "no database" in caplog.text
    assert "phase sync failed" in caplog.text


async def test_a_cycle_over_its_budget_ends_the_loop_and_names_the_phase_and_its_seconds(looptime, counted, caplog):
    async def quick():
        await asyncio.sleep(100)

    journal = Journal()
    loop = make_loop(journal, phase("scan", quick), phase("read subs", hang))

    with pytest.raises(CycleTimedOut, match="read subs"):
        await loop.run(asyncio.Event())

    assert looptime == pytest.approx(300, abs=1)
    assert counted == ["rmq_watcher.cycle_timed_out"]
    assert journal.done == ["consumers stopped", "connections closed"]
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "budget of 300 s in phase read subs, which has taken 200 s" in record.message


async def test_the_budget_is_three_intervals_where_that_is_more_and_the_variable_where_it_is_set(looptime):
    with pytest.raises(CycleTimedOut):
        await make_loop(Journal(), phase("x", hang), timing=Timing(200)).run(asyncio.Event())
    assert looptime == pytest.approx(600, abs=1)

    with pytest.raises(CycleTimedOut):
        await make_loop(Journal(), phase("x", hang), timing=Timing(200, 50)).run(asyncio.Event())
    assert looptime == pytest.approx(650, abs=1)


async def test_a_phase_that_ignores_its_cancellation_holds_nothing_up(looptime, counted):
    async def stubborn():
        while True:
            try:
                await asyncio.sleep(10**6)
            except asyncio.CancelledError:
                await asyncio.sleep(20)
                return

    with pytest.raises(CycleTimedOut):
        await make_loop(Journal(), phase("x", stubborn)).run(asyncio.Event())

    assert looptime == pytest.approx(305, abs=1)
    await asyncio.sleep(20)


async def test_a_database_that_hangs_does_not_hold_up_the_end(looptime, caplog):
    async def never(rows):
        await hang()

    stop = asyncio.Event()
    loop = make_loop(Journal(), write=never)
    loop.statuses.report(1, SimpleNamespace())
    running = asyncio.ensure_future(loop.run(stop))
    await asyncio.sleep(1)
    stop.set()
    await running

    assert looptime <= 12
    assert "last statuses could not be written" in caplog.text


async def test_a_stop_starts_no_further_phase(caplog):
    stop, ran = asyncio.Event(), []

    async def first():
        ran.append("first")
        stop.set()

    async def second():
        ran.append("second")

    caplog.set_level("INFO")
    await make_loop(Journal(), phase("scan", first), phase("sync", second)).run(stop)

    assert ran == ["first"]
    assert "stop requested — ending this cycle before phase sync" in caplog.text


async def test_a_scan_that_failed_is_followed_by_no_sync_with_the_old_listing():
    synced = []
    loop = loop_module.WatcherLoop(
        memory=loop_module.Memory(declarations=SimpleNamespace(read=None)),
        session=None,
        steps=SimpleNamespace(run=None),
        consumers=None,
        statuses=None,
        pool=None,
        provisioner=None,
        recovery=None,
        troubles=None,
        cooldown_conn=CooldownConnection(),
    )

    async def run(name, work, **_):
        synced.append(name)
        if name == "scan" and len(synced) > 1:
            raise RMQError("scan failed")
        return Listing() if name == "scan" else SyncPlan()

    loop.steps = SimpleNamespace(run=run)
    by_name = {item.name: item.run for item in loop.phases}
    await by_name["scan"]()
    await by_name["sync"]()
    with pytest.raises(RMQError):
        await by_name["scan"]()
    await by_name["sync"]()

    assert synced == ["scan", "sync", "scan"]


async def test_a_process_whose_parent_is_gone_starts_no_cycle_and_leaves_in_order(caplog):
    journal, cycles, answers = Journal(), [], iter([None, "the scheduler process 7 has exited (parent is now 1)"])

    async def note():
        cycles.append(1)

    made = make_loop(journal, Phase("note", note))
    made.orphaned = lambda: next(answers)

    await made.run(asyncio.Event())

    assert cycles == [1]
    assert journal.done[0] == "consumers stopped"
    assert "RMQ Watcher: the scheduler process 7 has exited (parent is now 1) — stopping the watcher" in caplog.text
