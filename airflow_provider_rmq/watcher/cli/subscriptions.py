"""`airflow-rmq subscriptions list|enable|disable` and `airflow-rmq status`: the rows, without Airflow's web server."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime, timezone
from typing import Any

from airflow_provider_rmq.watcher.cli.output import complain, say, say_json, say_table
from airflow_provider_rmq.watcher.cli.tables import open_tables
from airflow_provider_rmq.watcher.rows.shown import (
    ConnectionRow,
    SubscriptionRow,
    connection_rows,
    set_enabled,
    subscription_rows,
)

#: Characters of an error text in a table; JSON holds all of it.
SHOWN_ERROR = 100


def list_subscriptions(arguments: Namespace) -> int:
    """All rows, or those of some DAGs."""
    with closing(open_tables()) as session:
        rows = [row for row in subscription_rows(session) if not arguments.dag_id or row.dag_id in arguments.dag_id]
    if arguments.json:
        say_json([row.as_dict() for row in rows])
        return 0
    say_subscriptions(rows)
    return 0


def switch(arguments: Namespace) -> int:
    """Enable or disable; with an id that no row has nothing changes."""
    enabled: bool = arguments.enabled
    with closing(open_tables()) as session:
        rows = {row.id: row for row in subscription_rows(session)}
        wanted = dict.fromkeys(arguments.ids)
        wanted.update(dict.fromkeys(row.id for row in rows.values() if row.dag_id in arguments.dag_id))
        unknown = [str(number) for number in wanted if number not in rows]
        unknown += [name for name in arguments.dag_id if all(row.dag_id != name for row in rows.values())]
        if unknown or not wanted:
            complain(f"no subscription has {', '.join(unknown)}" if unknown else "name an id or a --dag-id")
            return 1
        changed = set_enabled(session, wanted, enabled=enabled)
    if arguments.json:
        say_json([{"id": number, "enabled": enabled, "changed": number in changed} for number in wanted])
        return 0
    word = "enabled" if enabled else "disabled"
    for number in wanted:
        row, already = rows[number], "" if number in changed else " already"
        say(f"subscription {number} ({row.queue_name} → {row.dag_id}, {row.conn_id}) is {word}{already}")
    if changed:
        say("The watcher follows in its next cycle.")
    return 0


def status(arguments: Namespace) -> int:
    """What the watcher last said about its AMQP connections and subscriptions."""
    with closing(open_tables()) as session:
        subscriptions, connections = subscription_rows(session), connection_rows(session)
    if arguments.json:
        say_json(
            {
                "connections": [row.as_dict() for row in connections],
                "subscriptions": [row.as_dict() for row in subscriptions],
            }
        )
        return 0
    now = datetime.now(timezone.utc)
    say_table(
        ("CONN_ID", "STATUS", "CONSUMERS", "AT THE BROKER", "LAST CYCLE", "ERROR"),
        [(*_connection(row), _age(row.last_reconcile_at, now), _short(row.last_error)) for row in connections],
        nothing="The watcher has written nothing about an AMQP connection yet.",
    )
    say("")
    counts = Counter(row.consumer_status if row.enabled else "disabled" for row in subscriptions)
    say(f"Subscriptions: {', '.join(f'{count} {name}' for name, count in sorted(counts.items())) or 'none'}")
    troubled = [row for row in subscriptions if row.enabled and row.consumer_status != "listening"]
    if troubled:
        say("")
        say_subscriptions(troubled)
    return 0


def say_subscriptions(rows: Iterable[SubscriptionRow]) -> None:
    """Rows as a table."""
    say_table(
        ("ID", "DAG_ID", "QUEUE", "CONN_ID", "SOURCE", "ENABLED", "COOLDOWN", "STATUS", "ERROR"),
        [
            (
                row.id,
                row.dag_id,
                row.queue_name,
                row.conn_id,
                row.source,
                row.enabled,
                row.cooldown or None,
                row.consumer_status,
                _short(row.last_error),
            )
            for row in rows
        ],
        nothing="There are no subscriptions.",
    )


def _connection(row: ConnectionRow) -> tuple[Any, ...]:
    return row.conn_id, row.status, row.consumer_count, row.broker_consumer_count


def _age(moment: datetime | None, now: datetime) -> str | None:
    return None if moment is None else f"{max(0, round((now - moment).total_seconds()))} s ago"


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= SHOWN_ERROR else f"{text[: SHOWN_ERROR - 1]}…"
