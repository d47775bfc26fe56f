"""Creates our tables and adds the columns that older releases did not have. Idempotent; blocking.

What is missing is read from the models, so a new nullable column needs nothing here. Only the watcher and the process
that serves the page come here; both ask first and change nothing where nothing is missing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import inspect, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from airflow_provider_rmq.errors import RMQError, describe
from airflow_provider_rmq.messages.backoff import Backoff
from airflow_provider_rmq.watcher.models import WatcherBase

log = logging.getLogger(__name__)

#: Attempts at once, for when another process changes the same tables: MySQL commits each statement by itself, so the
#: loser finds a little more done each time.
ATTEMPTS_AT_ONCE = 5
#: Seconds PostgreSQL may wait for the lock on a table: whoever waits for it keeps all readers waiting behind it.
LOCK_TIMEOUT = 10
#: Seconds between a failed change and the next: the first, and the longest.
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 300.0


class SchemaNotReady(RMQError):
    """The tables are not in their present shape, and it is too early to try again."""


def ensure_schema(session: Any) -> None:
    """Bring the tables to their present shape and commit; columns added to existing tables are nullable.

    Several processes may do this at once: whoever comes second finds the work done.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: The database does not answer, or refuses.
    """
    for attempt in range(1, ATTEMPTS_AT_ONCE + 1):
        try:
            if not is_schema_ready(session):
                _change(session)
        except DBAPIError:
            session.rollback()
            if attempt == ATTEMPTS_AT_ONCE or not _may_have_lost_a_race(session):
                raise
        else:
            return


def is_schema_ready(session: Any) -> bool:
    """Whether every table has all its columns."""
    inspector = inspect(session.connection())
    return all(_has_all_columns(inspector, table) for table in _tables())


def table_is_ready(session: Any, model: Any) -> bool:
    """Whether one table has all its columns."""
    return _has_all_columns(inspect(session.connection()), model.__table__)


@dataclass(slots=True)
class SchemaMigration:
    """One process's part: asks in every cycle until all is there, and tries to change it less and less often."""

    clock: Callable[[], float] = time.monotonic
    pauses: Backoff = field(default_factory=lambda: Backoff(FIRST_PAUSE, LONGEST_PAUSE))
    ready: bool = False
    _not_before: float | None = None

    def attempt(self, session: Any) -> None:
        """Bring the tables to their present shape where they are not; does nothing once they are.

        Raises:
            SchemaNotReady: Something is missing, and the last attempt to change it failed a short time ago.
            sqlalchemy.exc.SQLAlchemyError: The database does not answer, or refuses.
        """
        if self.ready:
            return
        if not is_schema_ready(session):
            if self._not_before is not None and self.clock() < self._not_before:
                raise SchemaNotReady(
                    "the watcher's tables are not in their present shape; the next attempt to change them is in "
                    f"{self._not_before - self.clock():.0f} s"
                )
            try:
                ensure_schema(session)
            except SQLAlchemyError:
                self._not_before = self.clock() + self.pauses.next()
                raise
        self.ready = True


def migrate_at_load(session_factory: Callable[[], Any]) -> bool:
    """The web server's part, once when it builds its application; whether the tables are there afterwards.

    A failure is logged and nothing else: the page says what is missing, and the watcher tries again.
    """
    try:
        with closing(session_factory()) as session:
            ensure_schema(session)
    except SQLAlchemyError as error:
        log.warning("the watcher's tables could not be brought to their present shape: %s", describe(error))
        return False
    return True


def _tables() -> list[Any]:
    return list(WatcherBase.metadata.sorted_tables)


def _change(session: Any) -> None:
    connection = session.connection()
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}s'"))
    WatcherBase.metadata.create_all(connection, checkfirst=True)
    inspector = inspect(connection)
    for table in _tables():
        existing = {column["name"] for column in inspector.get_columns(table.name)}
        for column in table.columns:
            if column.name not in existing:
                _add_column(connection, table, column)
    session.commit()


def _may_have_lost_a_race(session: Any) -> bool:
    """Whether the database still answers: then another process may have made what we wanted to make."""
    try:
        inspect(session.connection())
    except DBAPIError:
        session.rollback()
        return False
    return True


def _has_all_columns(inspector: Any, table: Any) -> bool:
    if not inspector.has_table(table.name):
        return False
    existing = {column["name"] for column in inspector.get_columns(table.name)}
    return existing.issuperset(column.name for column in table.columns)


def _add_column(connection: Any, table: Any, column: Any) -> None:
    preparer = connection.dialect.identifier_preparer
    type_name = column.type.compile(dialect=connection.dialect)
    statement = (
        f"ALTER TABLE {preparer.format_table(table)} ADD COLUMN {preparer.format_column(column)} {type_name} NULL"
    )
    connection.execute(text(statement))
    log.info("added column %s to table %s", column.name, table.name)
