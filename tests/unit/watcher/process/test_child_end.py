"""Stopping a child takes a bounded time, however the child behaves."""

import signal
import subprocess
import sys

from airflow_provider_rmq.watcher.process.child import ChildEnd, StopOutcome, stop_child


def child(program):
    process = subprocess.Popen(
        [sys.executable, "-c", f"import signal, sys, time\n{program}\nprint('up', flush=True)\ntime.sleep(600)"],
        stdout=subprocess.PIPE,
    )
    with process.stdout:
        process.stdout.readline()
    return process


def test_a_child_that_obeys_is_stopped():
    end = stop_child(child(""), term_wait=30, kill_wait=30)

    assert end == ChildEnd(StopOutcome.STOPPED, -signal.SIGTERM)


def test_a_deaf_child_is_killed():
    deaf = child("signal.signal(signal.SIGTERM, signal.SIG_IGN)")

    assert stop_child(deaf, term_wait=0.1, kill_wait=30) == ChildEnd(StopOutcome.KILLED, -signal.SIGKILL)


def test_a_child_that_has_ended_is_told_apart():
    ended = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    ended.wait()

    assert stop_child(ended, term_wait=30, kill_wait=30) == ChildEnd(StopOutcome.ALREADY_GONE, 3)
