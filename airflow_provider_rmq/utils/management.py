"""Stable import path of the management API helpers; the rules live in `broker.management` and `broker.settings`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from airflow_provider_rmq.broker.management import list_with
from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.compat import connection_record

__all__ = ["get_current_bindings", "get_management_url", "get_queue_consumers"]


def get_management_url(conn: Any) -> str | None:
    """The `management_url` of an Airflow `Connection`, without slashes at its end; None where it has none."""
    return ConnectionSettings.from_record(connection_record(conn)).management_url


async def get_current_bindings(client: Any, url: str, vhost: str, queue: str, exchange: str, auth: Any) -> set[str]:
    """Routing keys with which a queue is bound to an exchange.

    Args:
        client: An `httpx.AsyncClient`; its time-outs hold.
        url: The management API, as `get_management_url` returns it.
        vhost: The name itself, not encoded.
        queue: The queue.
        exchange: The exchange.
        auth: Login and password.

    Raises:
        ManagementUnavailable: There is no usable answer, and why.
    """
    found = await list_with(client, f"{url}/api/queues/{_quoted(vhost)}/{_quoted(queue)}/bindings", auth)
    return {
        str(item["routing_key"])
        for item in found
        if isinstance(item, Mapping) and item.get("source") == exchange and "routing_key" in item
    }


async def get_queue_consumers(client: Any, url: str, vhost: str, auth: Any) -> dict[str, set[str]]:
    """Consumer tags of every queue of a vhost that has consumers.

    Raises:
        ManagementUnavailable: There is no usable answer, and why.
    """
    tags: dict[str, set[str]] = {}
    for item in await list_with(client, f"{url}/api/consumers/{_quoted(vhost)}", auth):
        match item:
            case {"queue": {"name": str(queue)}, "consumer_tag": str(tag)}:
                tags.setdefault(queue, set()).add(tag)
    return tags


def _quoted(name: str) -> str:
    return quote(name, safe="")
