"""Arguments of a queue declaration: the queue type as a parameter of its own, and dead-lettering."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_rmq.errors import ConfigurationError

QUEUE_TYPE = "x-queue-type"
QUEUE_TYPES = ("classic", "quorum", "stream")


def queue_arguments(
    arguments: Mapping[str, Any] | None,
    queue_type: str | None,
    *,
    durable: bool,
    exclusive: bool = False,
    auto_delete: bool = False,
) -> dict[str, Any] | None:
    """The declaration's arguments with the queue type in them; None where there are none.

    Raises:
        ConfigurationError: An unknown type, one that contradicts `arguments`, or one that the flags rule out.
    """
    if arguments is not None and not isinstance(arguments, Mapping):
        raise ConfigurationError(f"arguments must be a dict or None, not {arguments!r}")
    merged = dict(arguments or {})
    if queue_type is None:
        return merged or None
    if queue_type not in QUEUE_TYPES:
        raise ConfigurationError(f"queue_type must be one of {', '.join(QUEUE_TYPES)} or None, not {queue_type!r}")
    if merged.get(QUEUE_TYPE, queue_type) != queue_type:
        raise ConfigurationError(
            f"queue_type={queue_type!r} contradicts arguments[{QUEUE_TYPE!r}]={merged[QUEUE_TYPE]!r}; give one of them"
        )
    if queue_type != "classic" and (not durable or exclusive or auto_delete):
        raise ConfigurationError(
            f"a {queue_type} queue must have durable=True, exclusive=False and auto_delete=False, "
            f"not durable={durable}, exclusive={exclusive}, auto_delete={auto_delete}"
        )
    return {**merged, QUEUE_TYPE: queue_type}


def dead_letter_arguments(dlx_exchange: str, dlx_routing_key: str | None, message_ttl: int | None) -> dict[str, Any]:
    """Arguments that send rejected and expired messages of a queue to an exchange.

    Raises:
        ConfigurationError: The TTL is no whole number of milliseconds.
    """
    arguments: dict[str, Any] = {"x-dead-letter-exchange": dlx_exchange}
    if dlx_routing_key is not None:
        arguments["x-dead-letter-routing-key"] = dlx_routing_key
    if message_ttl is not None:
        if isinstance(message_ttl, bool) or not isinstance(message_ttl, int) or message_ttl < 0:
            raise ConfigurationError(f"message_ttl must be whole milliseconds of at least 0, not {message_ttl!r}")
        arguments["x-message-ttl"] = message_ttl
    return arguments
