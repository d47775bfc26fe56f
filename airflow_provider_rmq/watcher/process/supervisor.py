"""Keeps the watcher's worker alive: a single thread, standard library only, about 15 MB beside the Scheduler.

It exists so that nothing of ours runs inside the Scheduler: waiting for a child that may die needs a process that may
block. Stops with the Scheduler, however the Scheduler ends. `restarts` decides, `signals` waits, `child` starts.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass, field

from airflow_provider_rmq.watcher.process.child import (
    LAST_END,
    RESTARTS,
    Role,
    StopOutcome,
    kill_child,
    reaped,
    start_child,
)
from airflow_provider_rmq.watcher.process.restarts import EXIT_FAILED, EXIT_MISUSED, EXIT_STOPPED, Leave, RestartPolicy
from airflow_provider_rmq.watcher.process.signals import (
    EXIT_DEADLINE,
    Stop,
    StopReason,
    StopWaiter,
    end_of,
    exit_at_latest_in,
    limit_life_after_parent,
)
from airflow_provider_rmq.watcher.process.stderr_lines import StderrLines

#: Seconds the worker has to leave when the Scheduler's listener, which itself waits 5 s, stops us.
TERM_WAIT = 4.0
#: Seconds the worker has to leave when nobody waits for us, because the Scheduler is dead or has not asked yet: more
#: than the 47 s a worker takes at most, and less than the minute the kernel gives us.
PATIENT_TERM_WAIT = 50.0
#: Seconds the kernel has to end a killed worker.
KILL_WAIT = 0.5


@dataclass(slots=True)
class Supervisor:
    """One worker at a time, started again when it dies."""

    waiter: StopWaiter
    policy: RestartPolicy = field(default_factory=RestartPolicy)
    lines: StderrLines = field(default_factory=StderrLines)
    _restarts: int = 0
    _last_end: str = ""

    def run(self) -> int:
        """Supervise until told to stop; the exit code of this process."""
        while True:
            begun = time.monotonic()
            worker = self._start()
            if worker is not None:
                stop = self._wait_for_end(worker)
                if stop is not None:
                    return self._leave(stop, worker)
            lifetime = time.monotonic() - begun
            decision = self.policy.next(EXIT_FAILED if worker is None else worker.returncode, lifetime)
            if isinstance(decision, Leave):
                self._tell_leaving(decision.code, worker)
                return decision.code
            if worker is not None:
                self._last_end = end_of(worker.returncode)
                self.say(
                    "ERROR",
                    f"RMQ Watcher process {worker.pid} died with {self._last_end} after {lifetime:.0f} s — starting it "
                    f"again in {decision.delay:g} s",
                )
            if self._pause(decision.delay) is not None:
                return EXIT_STOPPED
            self._restarts += 1

    def say(self, level: str, text: str) -> None:
        """Write a line beside the Scheduler's own; a stderr that nobody reads must not hold us up."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self.lines.write(f"[{stamp}] {{rmq watcher supervisor {os.getpid()}}} {level} - {text}")

    def _start(self) -> subprocess.Popen[bytes] | None:
        """Start a worker; None when the system has no room for one just now."""
        try:
            return start_child(Role.WORKER, extra_environment={RESTARTS: str(self._restarts), LAST_END: self._last_end})
        except OSError as error:
            self._last_end = f"no start: {error}"
            self.say("ERROR", f"RMQ Watcher process could not be started: {error}")
            return None

    def _wait_for_end(self, worker: subprocess.Popen[bytes]) -> Stop | None:
        """Wait until the worker has ended, or until we have to stop and why."""
        while worker.poll() is None:
            stop = self.waiter.wait()
            if stop is not None and stop.reason is not StopReason.CHILD:
                return stop
        return None

    def _pause(self, seconds: float) -> Stop | None:
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0:
            stop = self.waiter.wait(min(rest, 1.0))
            if stop is not None and stop.reason is not StopReason.CHILD:
                return stop
        return None

    def _tell_leaving(self, code: int, worker: subprocess.Popen[bytes] | None) -> None:
        pid = worker.pid if worker else 0
        if code == EXIT_MISUSED:
            self.say("ERROR", f"RMQ Watcher process {pid} was started wrongly (code {code}); it is not started again")
        else:
            self.say("INFO", f"RMQ Watcher process {pid} was stopped; its supervisor leaves too")

    def _leave(self, stop: Stop, worker: subprocess.Popen[bytes]) -> int:
        """Stop the worker and leave: soon when the Scheduler waits for it, otherwise when the worker is done."""
        exit_at_latest_in(EXIT_DEADLINE)
        if stop.reason is StopReason.PARENT_GONE:
            self.say(
                "ERROR",
                f"RMQ Watcher: the scheduler process {self.waiter.parent_pid} has exited (parent is now "
                f"{os.getppid()}) — stopping the watcher",
            )
        worker.terminate()
        if not self._left(stop, worker):
            end = kill_child(worker, kill_wait=KILL_WAIT)
            how = "could not be killed" if end.outcome is StopOutcome.LEFT_BEHIND else "was killed"
            self.say("WARNING", f"RMQ Watcher process {worker.pid} did not stop in time and {how}")
        return EXIT_STOPPED

    def _left(self, stop: Stop, worker: subprocess.Popen[bytes]) -> bool:
        """Whether the worker left in time. A request of the Scheduler's shortens the time it has from then on."""
        end = time.monotonic() + (TERM_WAIT if self._is_scheduler_waiting(stop) else PATIENT_TERM_WAIT)
        while worker.poll() is None:
            rest = end - time.monotonic()
            if rest <= 0:
                return False
            again = self.waiter.wait(min(rest, 1.0))
            if again is None or again.reason is StopReason.CHILD:
                continue
            if again.reason is StopReason.PARENT_GONE:
                return reaped(worker, rest) is not None
            if self._is_scheduler_waiting(again):
                end = min(end, time.monotonic() + TERM_WAIT)
        return True

    def _is_scheduler_waiting(self, stop: Stop) -> bool:
        """Whether the stop came from the Scheduler's listener; an init process sends the same signal before it."""
        return stop.reason is StopReason.SIGNAL and stop.sender in (None, self.waiter.parent_pid)


def run(parent_pid: int) -> int:
    """Supervise below the Scheduler until told to stop; the exit code of this process."""
    supervisor = Supervisor(StopWaiter(parent_pid, watch_child=True))
    if (refusal := limit_life_after_parent()) is not None:
        supervisor.say("WARNING", refusal)
    return supervisor.run()
