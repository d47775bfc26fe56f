"""What the Scheduler does when it starts and stops, and what it says about it; each line is one that alerts match."""

import logging
import os
import signal
import subprocess
import sys

import pytest

from airflow_provider_rmq.watcher import listener as module
from airflow_provider_rmq.watcher.listener import RMQWatcherListener
from airflow_provider_rmq.watcher.process.child import ChildEnd, Role, StopOutcome

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")

OBEDIENT = "import sys, time; print('up', flush=True); time.sleep(600)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {OBEDIENT}"


class SchedulerJob:
    """Stands for the component; what it is, is asked of `compat`."""


@pytest.fixture
def started(monkeypatch, caplog):
    """A listener in a Scheduler, whose supervisor runs a given program."""
    caplog.set_level(logging.INFO)
    children = []

    def make(program=OBEDIENT, *, in_scheduler=True):
        def start_child(role, *, extra_environment):
            assert role is Role.SUPERVISOR
            children.append(subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE))
            children[-1].stdout.readline()
            return children[-1]

        monkeypatch.setattr(module, "start_child", start_child)
        monkeypatch.setattr(module.compat, "running_in_scheduler", lambda component: in_scheduler)
        listener = RMQWatcherListener()
        listener.on_starting(SchedulerJob())
        return listener

    make.children = children
    yield make
    for child in children:
        child.kill()
        child.wait()
        child.stdout.close()


def test_a_scheduler_starts_one_process_however_often_it_is_told(started, caplog):
    listener = started()

    listener.on_starting(SchedulerJob())

    (child,) = started.children
    assert f"RMQ Watcher process started with PID {child.pid} (scheduler PID {os.getpid()})" in caplog.text


def test_a_component_that_is_no_scheduler_starts_none(started):
    listener = started(in_scheduler=False)

    listener.before_stopping(SchedulerJob())

    assert started.children == []


def test_a_process_of_ours_starts_none(started, monkeypatch):
    monkeypatch.setenv(module.CHILD_MARK, "worker")

    started()

    assert started.children == []


def test_a_process_that_obeys_is_stopped_with_its_code(started, caplog):
    listener = started()

    listener.before_stopping(SchedulerJob())

    (child,) = started.children
    assert f"RMQ Watcher process {child.pid} exited with code {-signal.SIGTERM}" in caplog.text


def test_a_process_that_is_gone_is_told_apart(started, caplog):
    listener = started()
    (child,) = started.children
    child.kill()
    child.wait()

    listener.before_stopping(SchedulerJob())

    assert f"RMQ Watcher process {child.pid} had already exited with code -9" in caplog.text


def test_a_deaf_process_is_killed_after_five_seconds(started, caplog, monkeypatch):
    assert (module.TERM_WAIT, module.KILL_WAIT) == (5, 2)
    monkeypatch.setattr(module, "TERM_WAIT", 0.1)
    listener = started(DEAF)

    listener.before_stopping(SchedulerJob())

    (child,) = started.children
    assert ("WARNING", f"RMQ Watcher process {child.pid} still running 0.1s after SIGTERM — killing it") in lines(
        caplog
    )
    assert f"RMQ Watcher process {child.pid} exited with code -9" in caplog.text


def test_a_process_stuck_in_the_kernel_is_left_behind(started, caplog, monkeypatch):
    """A process in uninterruptible sleep cannot be made here."""
    listener = started()
    left = ChildEnd(StopOutcome.LEFT_BEHIND, None)
    monkeypatch.setattr(module, "stop_child", lambda child, *, term_wait, kill_wait: left)

    listener.before_stopping(SchedulerJob())

    (child,) = started.children
    text = f"RMQ Watcher process {child.pid} not reaped 2s after SIGKILL — leaving it behind, the scheduler goes on "
    assert ("ERROR", f"{text}stopping") in lines(caplog)


def test_a_fork_of_the_scheduler_leaves_the_process_alone_and_says_so_once(started, caplog, monkeypatch):
    listener = started()
    scheduler = os.getpid()
    monkeypatch.setattr(module.os, "getpid", lambda: 4711)

    listener.on_starting(SchedulerJob())
    listener.before_stopping(SchedulerJob())

    (child,) = started.children
    assert child.poll() is None
    (said,) = [text for _, text in lines(caplog) if "RMQWatcherListener in process" in text]
    assert said == (
        f"RMQWatcherListener in process 4711, a fork of the scheduler process {scheduler} — the watcher process "
        "belongs to the scheduler, nothing to start or stop here"
    )


def test_what_goes_wrong_does_not_reach_the_scheduler(started, caplog, monkeypatch):
    listener = started()

    def broken(*_, **__):
        raise OSError("no such luck")

    monkeypatch.setattr(module, "stop_child", broken)
    listener.before_stopping(SchedulerJob())
    monkeypatch.setattr(module, "start_child", broken)
    RMQWatcherListener().on_starting(SchedulerJob())

    assert "could not be stopped" in caplog.text
    assert "could not be started; messages start no DAGs" in caplog.text


def lines(caplog):
    return [(record.levelname, record.getMessage()) for record in caplog.records]
