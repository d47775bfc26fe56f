"""A plugin that hangs on import keeps neither the Scheduler nor our processes from ending."""

import signal
import time

import pytest

from integration.lab.airflow import PROJECT
from integration.lab.waiting import wait_until
from integration.watcher.dags import watcher_processes

pytestmark = pytest.mark.slow_fault

HANG = """
import os
if os.environ.get("AIRFLOW_PROVIDER_RMQ_WATCHER_CHILD") == "worker":
    open(os.environ["AIRFLOW_HOME"] + "/hanging", "w").close()
    {how}
"""
#: In C, without giving up the interpreter's lock: no other thread of the process runs.
HOLDING_THE_LOCK = "import ctypes; ctypes.PyDLL(None).sleep(600)"
SLEEPING = "import time; time.sleep(600)"


@pytest.fixture
def hanging(airflow_home):
    """A Scheduler whose worker hangs in a plugin."""

    def make(how):
        home = airflow_home(connections={}, environment={"PYTHONPATH": str(PROJECT)})
        plugins = home.path / "plugins"
        plugins.mkdir()
        (plugins / "hang.py").write_text(HANG.format(how=how))
        scheduler = home.start_scheduler()
        wait_until((home.path / "hanging").exists, 60, "the plugin to hang")
        ours = [process for found in watcher_processes(scheduler.pid).values() for process in found]
        assert len(ours) == 2
        return scheduler, ours

    return make


@pytest.mark.parametrize("how", [SLEEPING, HOLDING_THE_LOCK], ids=["sleeping", "holding the lock"])
def test_the_scheduler_stops_within_its_seven_seconds(hanging, how):
    scheduler, ours = hanging(how)

    begun = time.monotonic()
    scheduler.send(signal.SIGTERM)
    assert all(process.gone(60) for process in ours)
    print(f"gone {time.monotonic() - begun:.1f} s after the stop")
    wait_until(lambda: not scheduler.alive, 60, "the Scheduler to end")

    log = scheduler.log.read_text()
    assert "not reaped" not in log
    assert ("while Airflow was being prepared" in log) == (how == SLEEPING)


@pytest.mark.parametrize("how", [SLEEPING, HOLDING_THE_LOCK], ids=["sleeping", "holding the lock"])
def test_nothing_outlives_a_killed_scheduler_by_more_than_a_minute(hanging, how):
    scheduler, ours = hanging(how)

    begun = time.monotonic()
    scheduler.send(signal.SIGKILL)

    assert all(process.gone(60 - (time.monotonic() - begun)) for process in ours)
    print(f"gone {time.monotonic() - begun:.1f} s after the Scheduler's death")
