"""Starts and stops a child process in bounded time; the Scheduler's listener and the supervisor both use it.

Standard library only: this is imported into the Scheduler and makes no thread there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

#: Environment: the PID of the process that has to be the child's parent.
PARENT_PID = "AIRFLOW_PROVIDER_RMQ_WATCHER_PARENT_PID"
#: Environment: set in every process of ours, so that none of them starts a watcher of its own.
CHILD_MARK = "AIRFLOW_PROVIDER_RMQ_WATCHER_CHILD"
#: Environment: the folder this package was imported from, for a copy in the plugins folder.
PACKAGE_DIR = "AIRFLOW_PROVIDER_RMQ_WATCHER_PACKAGE_DIR"
#: Environment: the PID of the Scheduler, for what a worker says of it.
SCHEDULER_PID = "AIRFLOW_PROVIDER_RMQ_WATCHER_SCHEDULER_PID"
#: Environment: how often the supervisor has started the worker again.
RESTARTS = "AIRFLOW_PROVIDER_RMQ_WATCHER_RESTARTS"
#: Environment: how the worker before this one ended.
LAST_END = "AIRFLOW_PROVIDER_RMQ_WATCHER_LAST_END"

RUNNER_MODULE = "airflow_provider_rmq.watcher.runner"

#: `python -c` puts the working directory in front of the module search path, and a `logging.py` lying in it would be
#: imported instead of the standard library's; the parent's own path does not hold it. A package that is not installed
#: is found at the end of the path, where the Scheduler has its plugins folder too.
BOOTSTRAP = (
    "import sys;"
    "sys.path[:] = [entry for entry in sys.path if entry];"
    "import os;"
    f"folder = os.environ.get('{PACKAGE_DIR}');"
    "folder and folder not in sys.path and sys.path.append(folder);"
    "import runpy;"
    f"runpy.run_module('{RUNNER_MODULE}', run_name='__main__', alter_sys=True)"
)


class Role(str, Enum):
    """What a process of ours does."""

    SUPERVISOR = "supervisor"
    WORKER = "worker"


class StopOutcome(Enum):
    """How a child was stopped."""

    ALREADY_GONE = "already gone"
    STOPPED = "stopped"
    KILLED = "killed"
    LEFT_BEHIND = "left behind"


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a stop ended; `returncode` is None for a child that could not be reaped."""

    outcome: StopOutcome
    returncode: int | None


def start_child(role: Role, *, extra_environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start one of our processes with this one's environment, output and working directory."""
    environment = {
        **os.environ,
        **(extra_environment or {}),
        CHILD_MARK: role.value,
        PARENT_PID: str(os.getpid()),
        PACKAGE_DIR: str(Path(__file__).absolute().parents[3]),  # as it was imported: it may be a link
    }
    if role is Role.SUPERVISOR:
        environment[SCHEDULER_PID] = str(os.getpid())
    return subprocess.Popen(  # noqa: S603 - our own interpreter and our own program
        [sys.executable, "-c", BOOTSTRAP, RUNNER_MODULE, role.value],
        env=environment,
        stdin=subprocess.DEVNULL,
    )


def stop_child(child: subprocess.Popen[bytes], *, term_wait: float, kill_wait: float) -> ChildEnd:
    """SIGTERM, wait, SIGKILL, wait: never longer than both waits together.

    Args:
        child: The process.
        term_wait: Seconds it has to leave by itself.
        kill_wait: Seconds the kernel has to end it.
    """
    if child.poll() is not None:
        return ChildEnd(StopOutcome.ALREADY_GONE, child.returncode)
    child.terminate()
    returncode = reaped(child, term_wait)
    if returncode is not None:
        return ChildEnd(StopOutcome.STOPPED, returncode)
    return kill_child(child, kill_wait=kill_wait)


def kill_child(child: subprocess.Popen[bytes], *, kill_wait: float) -> ChildEnd:
    """SIGKILL, and wait at most `kill_wait` seconds for the kernel."""
    child.kill()
    returncode = reaped(child, kill_wait)
    return ChildEnd(StopOutcome.LEFT_BEHIND if returncode is None else StopOutcome.KILLED, returncode)


def reaped(child: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The return code of a child that ends within so many seconds, else None."""
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
