"""Entry point of our two processes: `python -c <bootstrap> airflow_provider_rmq.watcher.runner supervisor|worker`.

Standard library only; what a role needs it imports itself. `process.child` starts it.
"""

from __future__ import annotations

import os
import sys

from airflow_provider_rmq.watcher.process.child import CHILD_MARK, PARENT_PID, Role
from airflow_provider_rmq.watcher.process.restarts import EXIT_MISUSED, EXIT_STOPPED
from airflow_provider_rmq.watcher.process.stderr_lines import StderrLines


def main() -> int:
    """Run the role this process was started for; its exit code."""
    parent_pid = os.environ.get(PARENT_PID, "")
    if not parent_pid.isdigit():
        _refuse(f"{PARENT_PID} does not hold the scheduler's PID — not starting the watcher")
        return EXIT_MISUSED
    if os.getppid() != int(parent_pid):
        _refuse(f"the scheduler process {parent_pid} exited before the watcher started")
        return EXIT_STOPPED
    role = os.environ.get(CHILD_MARK)
    if role == Role.SUPERVISOR:
        from airflow_provider_rmq.watcher.process import supervisor  # noqa: PLC0415 - each role loads its own

        return supervisor.run(int(parent_pid))
    if role == Role.WORKER:
        from airflow_provider_rmq.watcher.process import worker  # noqa: PLC0415 - each role loads its own

        return worker.run(int(parent_pid))
    _refuse(f"{CHILD_MARK} is {role!r}; {' or '.join(item.value for item in Role)} is allowed")
    return EXIT_MISUSED


def _refuse(text: str) -> None:
    StderrLines().write(f"RMQ Watcher process {os.getpid()}: {text}")


if __name__ == "__main__":
    sys.exit(main())
