"""Creates the two tables and adds the columns that older releases did not have. Idempotent; blocking."""

from __future__ import annotations

import logging
from typing import Any

from sqlalchemy import inspect, text

from airflow_provider_rmq.watcher.models import RMQConnStatus, RMQSubscription, WatcherBase

log = logging.getLogger(__name__)

_TABLES = (RMQSubscription.__table__, RMQConnStatus.__table__)


def ensure_schema(session: Any) -> None:
    """Bring both tables to their present shape; columns added to existing tables are nullable.

    Two Schedulers may do this at once: whoever comes second finds the work done, or fails and finds it done in the
    next cycle.
    """
    connection = session.connection()
    WatcherBase.metadata.create_all(connection, checkfirst=True)
    inspector = inspect(connection)
    for table in _TABLES:
        existing = {column["name"] for column in inspector.get_columns(table.name)}
        for column in table.columns:
            if column.name not in existing:
                _add_column(connection, table, column)
    session.commit()


def is_schema_ready(session: Any) -> bool:
    """Whether both tables have all their columns."""
    inspector = inspect(session.connection())
    return all(_has_all_columns(inspector, table) for table in _TABLES)


def table_is_ready(session: Any, model: Any) -> bool:
    """Whether one table has all its columns."""
    return _has_all_columns(inspect(session.connection()), model.__table__)


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
