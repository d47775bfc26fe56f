"""Prepare Airflow's database in one interpreter start: schema, connections, the user of the web page.

`airflow` runs this as a program with an Airflow home's environment. Orders come as JSON on standard input,
because passwords on a command line are there for every user of the machine to read:

    {"connections": {"rmq_default": "amqp://..."}, "admin": {"username": "...", "password": "..."}}
"""

from __future__ import annotations

import json
import sys
from typing import Any


def main() -> None:
    """Carry out the orders."""
    orders: dict[str, Any] = json.load(sys.stdin)
    if orders.get("migrate"):
        migrate()
    for conn_id, fields in orders.get("connections", {}).items():
        add_connection(conn_id, fields)
    if orders.get("admin"):
        create_admin(**orders["admin"])


def migrate() -> None:
    """Bring the database to this Airflow's schema."""
    from airflow.utils.db import initdb

    initdb()


def add_connection(conn_id: str, fields: dict[str, Any]) -> None:
    """Store a connection, in place of one of the same name."""
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session

    with create_session() as session:
        session.query(Connection).filter(Connection.conn_id == conn_id).delete()
        session.add(Connection(conn_id=conn_id, **fields))


def create_admin(username: str, password: str) -> None:
    """Make the user who may see everything."""
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder

    with get_application_builder() as builder:
        manager = builder.sm
        manager.add_user(username, "Admin", "Admin", "admin@example.org", manager.find_role("Admin"), password)


if __name__ == "__main__":
    main()
