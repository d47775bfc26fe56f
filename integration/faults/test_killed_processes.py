"""Supervisor and Scheduler killed in a burst, a database that refuses from the start, a full disk for the log."""

import resource
import signal

import pytest

from integration.faults.burst import now
from integration.lab.waiting import wait_until
from integration.watcher.dags import watcher_processes

pytestmark = pytest.mark.slow_fault


def test_a_supervisor_killed(site):
    """Nothing is started again until the Scheduler is; the queue keeps the messages, and the row says so."""
    with site.burst() as burst:
        burst.wait_for_runs(10)
        worker = site.process("worker")
        site.process("supervisor").send(signal.SIGKILL)
        assert worker.gone(60)
        wait_until(lambda: site.status() == "disconnected", 10, "the row to say so", show=site.rows)
        site.replace_scheduler()
        seconds = burst.seconds_until_next_run(now())
    site.judge("supervisor killed, Scheduler started anew", burst, seconds)
    site.wait_until_listening(60)


def test_a_scheduler_killed(site):
    with site.burst() as burst:
        burst.wait_for_runs(10)
        ours = [process for found in watcher_processes(site.scheduler.pid).values() for process in found]
        site.scheduler.send(signal.SIGKILL)
        assert len(ours) == 2
        assert all(process.gone(60) for process in ours)
        site.replace_scheduler()
        seconds = burst.seconds_until_next_run(now())
    site.judge("Scheduler killed and started anew", burst, seconds)
    site.wait_until_listening(60)


def test_a_database_that_refuses_from_the_start(site):
    """The Scheduler is frozen meanwhile, because Airflow's own ends when its database goes."""
    with site.burst() as burst:
        burst.wait_for_runs(10)
        site.scheduler.send(signal.SIGSTOP)
        site.postgres.stop()
        site.replace_worker()
        text = "RMQ Watcher process %d started"
        worker = site.process("worker")
        wait_until(lambda: text % worker.pid in site.scheduler.log.read_text(), 60, "the worker to be up")
        wait_until(lambda: "refused" in site.scheduler.log.read_text(), 30, "the first refusals")
        site.postgres.start()
        seconds = burst.seconds_until_next_run(now())
    site.judge("database refusing from the start", burst, seconds)
    site.scheduler.send(signal.SIGCONT)
    site.wait_until_listening(60)


def test_a_full_disk_for_the_log(site):
    """Writes beyond the log's present size fail with EFBIG, as they fail with ENOSPC on a full disk."""
    size = site.scheduler.log.stat().st_size
    with site.burst() as burst:
        burst.wait_for_runs(10)
        for role in ("supervisor", "worker"):
            resource.prlimit(site.process(role).pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        site.process("worker").send(signal.SIGKILL)
        seconds = burst.seconds_until_next_run(now())
        burst.longest_silence(now(), runs=50)
    resource.prlimit(site.process("supervisor").pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    site.judge("log's disk full, worker killed", burst, seconds, target=10)
    site.replace_worker()
    site.wait_until_listening(60)
