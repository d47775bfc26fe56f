"""The watcher's tables for the command, which makes and migrates none: that is the watcher's part."""

from __future__ import annotations

from typing import Any

from airflow_provider_rmq.errors import RMQError
from airflow_provider_rmq.watcher.models import WatcherSession
from airflow_provider_rmq.watcher.rows.schema import is_schema_ready


class TablesMissing(RMQError):
    """The metadata database does not hold the watcher's tables in their present shape."""


def open_tables() -> Any:
    """A session; the caller closes it.

    Raises:
        TablesMissing: The watcher has not been here yet.
    """
    session = WatcherSession()
    try:
        if is_schema_ready(session):
            return session
    except BaseException:
        session.close()
        raise
    session.close()
    raise TablesMissing("the watcher has not made its tables in this metadata database yet; start a Scheduler first")
