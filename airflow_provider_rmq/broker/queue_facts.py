"""What only the management API knows of a queue: its delivery limit, its dead-letter exchange, its exclusive owner.

Asked where a person needs the answer and the connection has a `management_url`; nothing depends on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from airflow_provider_rmq.broker.management import broker_version, describe_queue
from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.errors import BrokerError, describe

logger = logging.getLogger("airflow.task")

#: The first RabbitMQ whose quorum queues have a delivery limit nobody asked for, and that limit.
_LIMITED_SINCE, _DEFAULT_LIMIT = (4, 0), 20

#: Connections and queues whose limit was looked up in this process: once is enough.
_looked_up: set[tuple[str, str, str]] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """`delivery_limit` counts returns; None is no limit. `owner` is the connection an exclusive queue belongs to."""

    delivery_limit: int | None = None
    is_dead_lettered: bool = False
    owner: str | None = None

    @classmethod
    def of(cls, described: Mapping[str, Any], version: tuple[int, ...]) -> QueueFacts:
        """Read the management API's description; of a limit in the arguments and one in a policy the lower counts."""
        arguments, policy = _table(described, "arguments"), _table(described, "effective_policy_definition")
        limits = [
            limit
            for limit in (arguments.get("x-delivery-limit"), policy.get("delivery-limit"))
            if isinstance(limit, int)
        ]
        if not limits and version >= _LIMITED_SINCE:
            limits = [_DEFAULT_LIMIT]
        is_limited = described.get("type") == "quorum" and bool(limits) and min(limits) >= 0
        return cls(
            delivery_limit=min(limits) if is_limited else None,
            is_dead_lettered="x-dead-letter-exchange" in arguments or "dead-letter-exchange" in policy,
            owner=_table(described, "owner_pid_details").get("name"),
        )


def _table(described: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = described.get(key)
    return value if isinstance(value, Mapping) else {}


async def queue_facts(settings: ConnectionSettings, queue_name: str) -> QueueFacts:
    """Ask.

    Raises:
        NoManagementUrl: The connection has none.
        ManagementUnavailable: There is no usable answer, and why.
    """
    return QueueFacts.of(await describe_queue(settings, queue_name), await broker_version(settings))


async def warn_of_limit(settings: ConnectionSettings, queue_name: str) -> None:
    """Say once in a process that messages returned to this queue are lost after so many returns."""
    key = (settings.conn_id, settings.vhost, queue_name)
    if settings.management_url is None or key in _looked_up:
        return
    _looked_up.add(key)
    try:
        facts = await queue_facts(settings, queue_name)
    except BrokerError as error:
        logger.info("Whether queue %s has a delivery limit is not known: %s", queue_name, describe(error))
        return
    if facts.delivery_limit is not None and not facts.is_dead_lettered:
        logger.warning(
            "Queue %s drops a message when it is returned for the %d. time (its delivery limit is %d), and has no "
            "dead-letter exchange to keep it: each look at a message that does not match is one return",
            queue_name,
            facts.delivery_limit + 1,
            facts.delivery_limit,
        )


def warn_of_limit_blocking(settings: ConnectionSettings, queue_name: str) -> None:
    """`warn_of_limit` for code that waits, in a thread of its own: the caller may be inside an event loop."""
    if settings.management_url is not None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: asyncio.run(warn_of_limit(settings, queue_name))).result()


def exclusive_owner(settings: ConnectionSettings, queue_name: str) -> str | None:
    """The connection an exclusive queue belongs to, `client address -> broker address`; None where nobody says."""
    if settings.management_url is None:
        return None
    try:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: asyncio.run(queue_facts(settings, queue_name))).result().owner
    except BrokerError as error:
        logger.info("The owner of queue %s is not known: %s", queue_name, describe(error))
        return None
