"""Starts our supervisor with the Scheduler and stops it with it; runs inside the Scheduler and makes no thread there.

Airflow loads plugins, and with them this listener, in every process; `compat.running_in_scheduler` says which one is
the Scheduler. A LocalExecutor's forks inherit the object, so it remembers whose it is.
"""

from __future__ import annotations

import logging
import os
import subprocess

from airflow_provider_rmq import compat
from airflow_provider_rmq.watcher.process.child import CHILD_MARK, Role, StopOutcome, start_child, stop_child

log = logging.getLogger(__name__)

#: Seconds the supervisor has after SIGTERM; the Scheduler waits meanwhile.
TERM_WAIT = 5.0
#: Seconds the kernel has to end it after SIGKILL.
KILL_WAIT = 2.0


class RMQWatcherListener:
    """Airflow calls its hooks; what fails here must not stop the Scheduler."""

    def __init__(self) -> None:
        """Nothing is started yet."""
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._owner_pid: int | None = None
        self._told_in: int | None = None

    @compat.listener_hook
    def on_starting(self, component: object) -> None:
        """A component of Airflow starts; when it is the Scheduler, start the watcher."""
        if self._is_in_a_fork() or os.environ.get(CHILD_MARK) or not compat.running_in_scheduler(component):
            return
        if self._owner_pid == os.getpid():
            return
        try:
            self._supervisor = start_child(Role.SUPERVISOR, extra_environment=compat.CHILD_ENVIRONMENT)
            self._owner_pid = os.getpid()
        except Exception:  # on Airflow 2 an exception out of a listener ends the Scheduler
            log.exception("RMQ Watcher process could not be started; messages start no DAGs")
            return
        log.info("RMQ Watcher process started with PID %d (scheduler PID %d)", self._supervisor.pid, os.getpid())

    @compat.listener_hook
    def before_stopping(self, component: object) -> None:  # noqa: ARG002 - pluggy passes it by this name
        """A component of Airflow stops; when it is the Scheduler that started the watcher, stop the watcher."""
        if self._is_in_a_fork() or self._supervisor is None:
            return
        supervisor, self._supervisor = self._supervisor, None
        try:
            self._stop(supervisor)
        except Exception:
            log.exception("RMQ Watcher process %d could not be stopped", supervisor.pid)

    def _is_in_a_fork(self) -> bool:
        """Whether this is a task's process, which a LocalExecutor forks from the Scheduler; it says so once."""
        if self._owner_pid in (None, os.getpid()):
            return False
        if self._told_in != os.getpid():
            self._told_in = os.getpid()
            log.info(
                "RMQWatcherListener in process %d, a fork of the scheduler process %d — the watcher process belongs to "
                "the scheduler, nothing to start or stop here",
                os.getpid(),
                self._owner_pid,
            )
        return True

    @staticmethod
    def _stop(supervisor: subprocess.Popen[bytes]) -> None:
        end = stop_child(supervisor, term_wait=TERM_WAIT, kill_wait=KILL_WAIT)
        if end.outcome is StopOutcome.ALREADY_GONE:
            log.info("RMQ Watcher process %d had already exited with code %s", supervisor.pid, end.returncode)
            return
        if end.outcome is not StopOutcome.STOPPED:
            log.warning(
                "RMQ Watcher process %d still running %gs after SIGTERM — killing it", supervisor.pid, TERM_WAIT
            )
        if end.outcome is StopOutcome.LEFT_BEHIND:
            log.error(
                "RMQ Watcher process %d not reaped %gs after SIGKILL — leaving it behind, the scheduler goes on "
                "stopping",
                supervisor.pid,
                KILL_WAIT,
            )
            return
        log.info("RMQ Watcher process %d exited with code %s", supervisor.pid, end.returncode)
