"""How often a worker was started again, where the page can show it: one row for each Scheduler whose worker died.

A worker that is a first start has no row. Rows are written when a worker has started, and go a week later.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, select

from airflow_provider_rmq.watcher.models import RMQWatcherRestart

#: How long a restart is news.
KEPT_FOR = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """The start of a worker: for which Scheduler, how many starts again it was, after which end, when in naive UTC."""

    hostname: str
    scheduler_pid: int
    restarts: int
    last_end: str
    at: datetime


def note_start(session: Any, start: WorkerStart) -> None:
    """Store a restart, forget old ones, and commit."""
    session.execute(delete(RMQWatcherRestart).where(RMQWatcherRestart.restarted_at < start.at - KEPT_FOR))
    key = (start.hostname, start.scheduler_pid)
    stored = session.get(RMQWatcherRestart, key)
    if start.restarts == 0:
        if stored is not None:  # a process number that came round again
            session.delete(stored)
    else:
        stored = stored or RMQWatcherRestart(hostname=start.hostname, scheduler_pid=start.scheduler_pid)
        stored.restarts, stored.last_end, stored.restarted_at = start.restarts, start.last_end[:250], start.at
        session.add(stored)
    session.commit()


def recent_restarts(session: Any) -> list[WorkerStart]:
    """The last restart below each Scheduler whose worker was started again, newest first."""
    rows = session.scalars(select(RMQWatcherRestart).order_by(RMQWatcherRestart.restarted_at.desc()))
    return [
        WorkerStart(row.hostname, row.scheduler_pid, row.restarts, row.last_end or "", row.restarted_at) for row in rows
    ]
