"""A connection pool on the broker of an AMQP URL, without an Airflow to look the connection up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from airflow_provider_rmq.broker.pool import ConnectionPool
from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.compat import ConnectionRecord
from integration.lab.airflow import rmq_connection


def lookup_for(
    url: str, management_url: str | None = None, **extra: object
) -> Callable[[str], Awaitable[ConnectionSettings]]:
    """A lookup that answers every conn_id with this broker."""
    fields = rmq_connection(url)
    names = ("host", "port", "login", "password", "schema")
    extras = {**extra, **({"management_url": management_url} if management_url else {})}

    async def lookup(conn_id: str) -> ConnectionSettings:
        return ConnectionSettings.from_record(
            ConnectionRecord(conn_id=conn_id, extra=extras, **{name: fields[name] for name in names})
        )

    return lookup


def pool_for(url: str, **extra: object) -> ConnectionPool:
    """A pool; close it at the end."""
    return ConnectionPool(lookup_for(url, **extra), "test")
