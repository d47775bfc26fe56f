"""What could not be read of the declarations, where the web server finds it: it is another process than the scan.

Every Scheduler's watcher stores what its own scan complains about. A complaint it no longer has is deleted at once;
what a process left behind that is gone is deleted when nobody has repeated it for a while.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, inspect, select, update
from sqlalchemy.exc import IntegrityError

from airflow_provider_rmq.watcher.declarations import Complaint
from airflow_provider_rmq.watcher.models import RMQComplaint

#: Complaints that are stored at most; the log has all of them.
MOST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredComplaint:
    """A complaint as the page shows it; moments are naive UTC."""

    text: str
    path: str
    dag_id: str | None
    queue: str | None
    first_seen_at: datetime
    seen_at: datetime


@dataclass(slots=True)
class ComplaintStore:
    """Writes the complaints of one process."""

    _stored: frozenset[str] = field(default_factory=frozenset)

    def replace(self, session: Any, complaints: Iterable[Complaint], now: datetime, keep: float) -> None:
        """Store what is complained about now, and commit.

        Args:
            session: A SQLAlchemy session.
            complaints: All there are.
            now: Naive UTC.
            keep: Seconds after which a complaint that nobody repeated is deleted.
        """
        wanted = {_digest(item): item for item in list(complaints)[:MOST]}
        table = RMQComplaint
        gone = table.digest.in_(sorted(self._stored - wanted.keys())) | (table.seen_at < now - timedelta(seconds=keep))
        self._execute(session, delete(table).where(gone, table.digest.not_in(sorted(wanted))))
        self._execute(session, update(table).where(table.digest.in_(sorted(wanted))).values(seen_at=now))
        known = set(session.scalars(select(table.digest).where(table.digest.in_(sorted(wanted)))))
        for digest in sorted(wanted.keys() - known):
            _insert(session, digest, wanted[digest], now)
        session.commit()
        self._stored = frozenset(wanted)

    @staticmethod
    def _execute(session: Any, statement: Any) -> None:
        session.execute(statement, execution_options={"synchronize_session": False})


def load_complaints(session: Any) -> tuple[StoredComplaint, ...]:
    """All complaints, by file and line; none while the watcher has not made their table yet."""
    if not inspect(session.connection()).has_table(RMQComplaint.__tablename__):
        return ()
    rows = session.scalars(select(RMQComplaint).order_by(RMQComplaint.path, RMQComplaint.line, RMQComplaint.digest))
    return tuple(
        StoredComplaint(
            text=row.text,
            path=row.path,
            dag_id=row.dag_id,
            queue=row.queue_name,
            first_seen_at=row.first_seen_at,
            seen_at=row.seen_at,
        )
        for row in rows
    )


def _insert(session: Any, digest: str, complaint: Complaint, now: datetime) -> None:
    row = RMQComplaint(
        digest=digest,
        path=_storable(complaint.path),
        line=complaint.line,
        dag_id=_storable(complaint.dag_id)[:250] if complaint.dag_id else None,
        queue_name=_storable(complaint.queue)[:250] if complaint.queue else None,
        text=_storable(str(complaint)),
        first_seen_at=now,
        seen_at=now,
    )
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:
        return  # another Scheduler complains about the same


def _digest(complaint: Complaint) -> str:
    return hashlib.sha256(_storable(str(complaint)).encode()).hexdigest()


def _storable(text: str) -> str:
    """What every database takes: file names may hold any bytes, and a DAG file any text."""
    return text.encode("utf-8", errors="replace").decode().replace("\0", "\\0")[:4000]
