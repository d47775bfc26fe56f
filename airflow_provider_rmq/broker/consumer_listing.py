"""`GET /api/consumers/{vhost}`: which consumers the broker has; the liveness check looks its own tags up there.

The way to the API, its bounds and its errors are `management`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from airflow_provider_rmq.broker.management import management_answer
from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.errors import ManagementUnavailable


@dataclass(frozen=True, slots=True)
class ConsumerListing:
    """The consumers of a vhost that the login may see: consumer tags by queue."""

    by_queue: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def tags(self) -> frozenset[str]:
        """All consumer tags."""
        return frozenset(tag for tags in self.by_queue.values() for tag in tags)

    def count(self, queues: Iterable[str]) -> int:
        """How many consumers these queues have."""
        return sum(len(self.by_queue.get(queue, ())) for queue in set(queues))


async def list_consumers(settings: ConnectionSettings) -> ConsumerListing:
    """Ask once.

    Raises:
        NoManagementUrl: The connection has none.
        ManagementUnavailable: There is no usable answer, and why.
    """
    answer = await management_answer(settings, f"api/consumers/{quote(settings.vhost, safe='')}")
    if not isinstance(answer, list):
        raise ManagementUnavailable(f"{settings.conn_id}: the management API answered with no list of consumers")
    found: dict[str, list[str]] = {}
    for item in answer:
        queue, tag = _consumer(settings.conn_id, item)
        found.setdefault(queue, []).append(tag)
    return ConsumerListing({queue: tuple(tags) for queue, tags in found.items()})


def _consumer(conn_id: str, item: Any) -> tuple[str, str]:
    match item:
        case {"queue": {"name": str(queue)}, "consumer_tag": str(tag)}:
            return queue, tag
    raise ManagementUnavailable(f"{conn_id}: the management API listed something that is no consumer")
