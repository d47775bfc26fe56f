"""Reads what the Subscriptions page shows and lays it out; writes nothing and asks no broker.

The number of queries does not grow with the rows. A block that cannot be read becomes a notice, the other one is shown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from airflow_provider_rmq import compat
from airflow_provider_rmq.watcher.models import RMQConnStatus, RMQSubscription
from airflow_provider_rmq.watcher.rows.page_rows import connection_rows, subscription_rows
from airflow_provider_rmq.watcher.rows.schema import table_is_ready
from airflow_provider_rmq.watcher.web.connections_block import ConnectionLine, lay_out_connections
from airflow_provider_rmq.watcher.web.subscriptions_page import (
    Allowed,
    Group,
    Paging,
    SubscriptionsPage,
    lay_out,
    select_groups,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

BEHIND = "This table is not there in its present shape yet: it is made when the Scheduler starts the watcher."
UNREADABLE = "This table could not be read; the web server's log has the reason."


def load_page(
    session: Any, now: datetime, *, stale_after: float, allowed: Allowed, search: str = "", page: int = 1
) -> SubscriptionsPage:
    """Read and lay out.

    Args:
        session: A SQLAlchemy session.
        now: Naive UTC, as the rows hold it.
        stale_after: Seconds a connection's stamp may be old.
        allowed: What the person who looks may do.
        search: Words to search for.
        page: From 1.
    """

    def connections() -> tuple[ConnectionLine, ...]:
        return lay_out_connections(connection_rows(session), now, stale_after)

    def groups() -> tuple[tuple[Group, ...], Paging]:
        rows = subscription_rows(session)
        shown, paging = select_groups(rows, search, page)
        dag_ids = {row.key.dag_id for _, found in shown for row in found}
        return lay_out(shown, rows, compat.dag_states(session, dag_ids)), paging

    no_groups: tuple[tuple[Group, ...], Paging] = ((), Paging(search=search))
    no_connections: tuple[ConnectionLine, ...] = ()
    (lines, paging), subscriptions_notice = _block(session, RMQSubscription, groups, no_groups)
    connection_lines, connections_notice = _block(session, RMQConnStatus, connections, no_connections)
    return SubscriptionsPage(
        groups=lines,
        connections=connection_lines,
        paging=paging,
        allowed=allowed,
        subscriptions_notice=subscriptions_notice,
        connections_notice=connections_notice,
    )


def _block(session: Any, model: Any, read: Callable[[], T], otherwise: T) -> tuple[T, str | None]:
    """What a block shows, or why it shows nothing."""
    try:
        if not table_is_ready(session, model):
            return otherwise, BEHIND
        return read(), None
    except SQLAlchemyError:
        log.exception("the Subscriptions page could not read table %s", model.__tablename__)
        session.rollback()
        return otherwise, UNREADABLE
