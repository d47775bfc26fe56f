"""Changes subscription rows as a person asks for it; every function commits and says what it found.

What may be changed is decided by `web.actions`; here every write is matched on what the decision was made on, so that
a row which the sync or another person has changed meanwhile is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError

from airflow_provider_rmq.errors import ConfigurationError
from airflow_provider_rmq.watcher.models import RMQSubscription
from airflow_provider_rmq.watcher.rows.page_rows import SubscriptionRow, as_subscription_row
from airflow_provider_rmq.watcher.subscription import Declaration, Source

_ID = RMQSubscription.id


class AlreadySubscribed(ConfigurationError):
    """Another row has this DAG, queue and connection."""


def row_by_id(session: Any, subscription_id: int) -> SubscriptionRow | None:
    """One subscription, None when it is gone."""
    row = session.get(RMQSubscription, subscription_id)
    return None if row is None else as_subscription_row(row)


def rows_of_group(session: Any, group_key: str) -> list[SubscriptionRow]:
    """The subscriptions of a group, in the order of their ids."""
    statement = select(RMQSubscription).where(RMQSubscription.group_key == group_key).order_by(_ID)
    return [as_subscription_row(row) for row in session.scalars(statement)]


def set_enabled(session: Any, subscription_ids: Iterable[int], *, enabled: bool) -> int:
    """Switch subscriptions on or off; how many there were to switch."""
    statement = update(RMQSubscription).where(_ID.in_(sorted(subscription_ids))).values(enabled=enabled)
    changed = session.execute(statement, execution_options={"synchronize_session": False}).rowcount
    session.commit()
    return int(changed)


def delete_ui_rows(session: Any, subscription_ids: Iterable[int]) -> int:
    """Delete subscriptions that belong to the UI; how many there were."""
    statement = delete(RMQSubscription).where(
        _ID.in_(sorted(subscription_ids)), RMQSubscription.source == Source.UI.value
    )
    gone = session.execute(statement, execution_options={"synchronize_session": False}).rowcount
    session.commit()
    return int(gone)


def replace_ui_rows(
    session: Any, old: Iterable[SubscriptionRow], new: Iterable[Declaration], *, enabled: bool
) -> list[SubscriptionRow]:
    """Bring the UI's rows from `old` to `new` in one transaction.

    A row whose key stays keeps its id; otherwise as many old rows as there are take over new keys, because the id
    stands in run confs and links; what is left over is deleted or inserted.

    Raises:
        AlreadySubscribed: A row outside `old` has one of the keys; nothing is changed.
    """
    wanted = {declaration.key: declaration for declaration in new}
    kept = {row.key: row.id for row in old if row.key in wanted}
    free = [row.id for row in old if row.key not in wanted]
    ids: list[int] = []
    try:
        for key, declaration in wanted.items():
            columns = _columns(declaration) | {"enabled": enabled}
            reused = kept.get(key) or (free.pop(0) if free else None)
            ids.append(_write(session, reused, columns))
        surplus = delete(RMQSubscription).where(_ID.in_(free), RMQSubscription.source == Source.UI.value)
        session.execute(surplus, execution_options={"synchronize_session": False})
        session.commit()
    except IntegrityError as error:
        session.rollback()
        raise AlreadySubscribed(_taken(session, wanted)) from error
    return [as_subscription_row(row) for row in session.scalars(select(RMQSubscription).where(_ID.in_(ids)))]


def _write(session: Any, subscription_id: int | None, columns: Mapping[str, Any]) -> int:
    row = None if subscription_id is None else session.get(RMQSubscription, subscription_id)
    if row is None:
        row = RMQSubscription(source=Source.UI.value)
        session.add(row)
    for name, value in columns.items():
        setattr(row, name, value)
    session.flush()
    return int(row.id)


def _columns(declaration: Declaration) -> dict[str, Any]:
    dag_id, queue_name, conn_id = declaration.key
    return {
        "dag_id": dag_id,
        "queue_name": queue_name,
        "conn_id": conn_id,
        "filter_data": dict(declaration.filter_data),
        "cooldown": declaration.cooldown or None,
        "group_key": dag_id if declaration.cooldown else None,
        "ack_unmatched": declaration.ack_unmatched,
    }


def _taken(session: Any, wanted: Mapping[Any, Declaration]) -> str:
    found = {
        (row.dag_id, row.queue_name, row.conn_id)
        for row in session.execute(select(RMQSubscription.dag_id, RMQSubscription.queue_name, RMQSubscription.conn_id))
    }
    queues = [key.queue_name for key in wanted if tuple(key) in found]
    return (
        f"this DAG already has a subscription to {', '.join(queues) or 'one of these queues'} over this connection; "
        "edit that one, or switch it on"
    )
