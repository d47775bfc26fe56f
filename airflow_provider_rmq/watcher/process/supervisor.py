"""Keeps the watcher's worker alive: a single thread, standard library only, about 15 MB beside the Scheduler.

It exists so that nothing of ours runs inside the Scheduler: waiting for a child that may die needs a process that may
block. Stops with the Scheduler, however the Scheduler ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from airflow_provider_rmq.watcher.process.child import RESTARTS, Role, StopOutcome, start_child, stop_child
from airflow_provider_rmq.watcher.process.restarts import EXIT_STOPPED, Leave, RestartPolicy
from airflow_provider_rmq.watcher.process.signals import (
    Stop,
    StopReason,
    StopWaiter,
    end_of,
    request_parent_death_signal,
)

#: Seconds the worker has to leave when the Scheduler's listener, which itself waits 5 s, stops us.
TERM_WAIT = 4.0
#: Seconds the worker has to leave when the Scheduler is dead and nobody waits for us: more than the worker needs.
TERM_WAIT_ORPHANED = 55.0
#: Seconds the kernel has to end a killed worker.
KILL_WAIT = 0.5


def run(parent_pid: int) -> int:
    """Supervise until told to stop; the exit code of this process."""
    waiter = StopWaiter(parent_pid, watch_child=True)
    if (refusal := request_parent_death_signal()) is not None:
        say("WARNING", refusal)
    policy = RestartPolicy()
    restarts = 0
    while True:
        begun = time.monotonic()
        worker = start_child(Role.WORKER, extra_environment={RESTARTS: str(restarts)})
        stop = _wait_for_end(waiter, worker)
        if stop is not None:
            return _leave(stop, worker)
        decision = policy.next(worker.returncode, time.monotonic() - begun)
        if isinstance(decision, Leave):
            return decision.code
        say(
            "ERROR",
            f"RMQ Watcher process {worker.pid} died with {end_of(worker.returncode)} after "
            f"{time.monotonic() - begun:.0f} s — starting it again in {decision.delay:g} s",
        )
        if _wait_for_stop(waiter, decision.delay) is not None:
            return EXIT_STOPPED
        restarts += 1


def _wait_for_end(waiter: StopWaiter, worker: subprocess.Popen[bytes]) -> Stop | None:
    """Wait until the worker has ended, or until we have to stop and why."""
    while worker.poll() is None:
        stop = waiter.wait()
        if stop is not None and stop.reason is not StopReason.CHILD:
            return stop
    return None


def _wait_for_stop(waiter: StopWaiter, seconds: float) -> Stop | None:
    end = time.monotonic() + seconds
    while (rest := end - time.monotonic()) > 0:
        stop = waiter.wait(min(rest, 1.0))
        if stop is not None and stop.reason is not StopReason.CHILD:
            return stop
    return None


def _leave(stop: Stop, worker: subprocess.Popen[bytes]) -> int:
    orphaned = stop.reason is StopReason.PARENT_GONE
    end = stop_child(worker, term_wait=TERM_WAIT_ORPHANED if orphaned else TERM_WAIT, kill_wait=KILL_WAIT)
    if end.outcome in (StopOutcome.KILLED, StopOutcome.LEFT_BEHIND):
        say("WARNING", f"RMQ Watcher process {worker.pid} did not stop in time and was killed")
    return EXIT_STOPPED


def say(level: str, text: str) -> None:
    """Write a line beside the Scheduler's own; a stderr that nobody reads any more must not end us."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    try:
        sys.stderr.write(f"[{stamp}] {{rmq watcher supervisor {os.getpid()}}} {level} - {text}\n")
        sys.stderr.flush()
    except OSError:
        return
