"""The rules for a subscription's arguments, the same for the decorator, the scan of DAG files and the page.

`build_declarations` is the one place where they are checked; what fails says what was given and what is allowed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_rmq.broker.topology import (
    OWN_PREFIX,
    check_cooldown_dag_id,
    check_exchange_name,
    sub_queue_name,
)
from airflow_provider_rmq.errors import ConfigurationError
from airflow_provider_rmq.messages.filters import MessageFilter
from airflow_provider_rmq.messages.json_values import storable_text
from airflow_provider_rmq.watcher.subscription import Declaration, ExchangeBinding, OnFilterError, SubscriptionKey

#: The Airflow connection of a subscription that names none.
DEFAULT_CONN_ID = "rmq_default"
#: Status part of the routing keys made from `routing_key_ids`: any.
ANY_STATUS = "*"
#: Bytes; the length of an AMQP short string (AMQP 0-9-1, section 4.2.5.3): names and routing keys.
MAX_NAME_BYTES = 255
#: Characters; the width of the key columns of the subscriptions table.
MAX_KEY_LENGTH = 250
#: Seconds; RabbitMQ takes an expiration of at most 2**32 - 1 milliseconds.
MAX_COOLDOWN = 4_294_967


def build_declarations(
    *,
    dag_id: str,
    queue: Any = None,
    queues: Any = None,
    conn_id: Any = DEFAULT_CONN_ID,
    filter_data: Any = None,
    cooldown: Any = 0,
    exchange: Any = None,
    routing_keys: Any = None,
    routing_key_ids: Any = None,
    routing_key_status: Any = ANY_STATUS,
    ack_unmatched: Any = False,
    keep_payload: Any = False,
    mirror: Any = True,
    on_filter_error: Any = OnFilterError.REQUEUE.value,
) -> list[Declaration]:
    """Check the arguments of one `rmq_trigger` and return what it declares, one for each queue.

    Raises:
        ConfigurationError: An argument is wrong; also a `ValueError`.
    """
    _check_one_origin(queue=queue, queues=queues, exchange=exchange)
    _check_flags(ack_unmatched=ack_unmatched, keep_payload=keep_payload, mirror=mirror)
    binding = _exchange_binding(exchange, routing_keys, routing_key_ids, routing_key_status, mirror)
    names = [sub_queue_name(dag_id)] if binding else _queue_names(queue, queues)
    _check_name("conn_id", conn_id)
    checked_filter = _checked_filter(filter_data)
    _check_cooldown(dag_id, cooldown)
    policy = OnFilterError.of("" if on_filter_error is None else on_filter_error)
    if keep_payload and not cooldown:
        raise ConfigurationError("keep_payload belongs to cooldown, which is 0; without it every DAG gets its message")
    for name, value in [("dag_id", dag_id), ("conn_id", conn_id), *(("queue", item) for item in names)]:
        if len(value) > MAX_KEY_LENGTH:
            raise ConfigurationError(f"{name} has {len(value)} characters, {MAX_KEY_LENGTH} are allowed: {value!r}")
        if value != storable_text(value):
            raise ConfigurationError(f"{name} holds NUL or half a character, which is no text to a database: {value!r}")
    return [
        Declaration(
            key=SubscriptionKey(dag_id, name, conn_id),
            filter_data=checked_filter,
            cooldown=cooldown,
            ack_unmatched=ack_unmatched,
            exchange=binding,
            keep_payload=keep_payload,
            on_filter_error=policy,
        )
        for name in dict.fromkeys(names)
    ]


def build_subscriptions(**arguments: Any) -> list[dict[str, Any]]:
    """`build_declarations` in the form in which a DAG object carries its subscriptions."""
    return [declaration.as_dict() for declaration in build_declarations(**arguments)]


def has_exchange_conflict(existing: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> bool:
    """Whether both lists hold an exchange: they would share one queue, and the last one read would win."""
    return any("exchange" in item for item in existing) and any("exchange" in item for item in new)


def _check_one_origin(**origins: Any) -> None:
    given = [name for name, value in origins.items() if value is not None]
    if len(given) != 1:
        raise ConfigurationError(
            f"exactly one of queue, queues and exchange must be given; given: {', '.join(given) or 'none'}"
        )


def _check_flags(**flags: Any) -> None:
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ConfigurationError(f"{name} must be True or False; {value!r} was given")


def _check_cooldown(dag_id: str, cooldown: Any) -> None:
    if isinstance(cooldown, bool) or not isinstance(cooldown, int) or cooldown < 0:
        raise ConfigurationError(f"cooldown must be an int of seconds, 0 or more; {cooldown!r} was given")
    if cooldown > MAX_COOLDOWN:
        raise ConfigurationError(f"cooldown of {cooldown} s is longer than the {MAX_COOLDOWN} s RabbitMQ allows")
    if cooldown:
        check_cooldown_dag_id(dag_id)


def _queue_names(queue: Any, queues: Any) -> list[str]:
    if queue is not None:
        _check_name("queue", queue)
        return [queue]
    if not isinstance(queues, list) or not queues:
        raise ConfigurationError(f"queues must be a list of queue names with at least one entry; {queues!r} was given")
    for name in queues:
        _check_name("an entry of queues", name)
    return queues


def _exchange_binding(exchange: Any, routing_keys: Any, ids: Any, status: Any, mirror: bool) -> ExchangeBinding | None:
    if exchange is None:
        if not mirror:
            raise ConfigurationError("mirror belongs to exchange, which is not given")
        for name, value in (("routing_keys", routing_keys), ("routing_key_ids", ids)):
            if value is not None:
                raise ConfigurationError(f"{name} belongs to exchange, which is not given")
        return None
    _check_name("exchange", exchange)
    if exchange.startswith(OWN_PREFIX):
        raise ConfigurationError(f"exchange {exchange!r}: names that start with {OWN_PREFIX} are the provider's own")
    check_exchange_name(exchange)
    if not routing_keys and not ids:
        raise ConfigurationError("exchange needs routing_keys, routing_key_ids, or both")
    literal = _keys("routing_keys", routing_keys)
    parts = _keys("routing_key_ids", ids, dots=False)
    endings = [status] if isinstance(status, str) else status
    combined = [f"{part}.{ending}" for part in parts for ending in _keys("routing_key_status", endings, dots=False)]
    keys = tuple(dict.fromkeys([*literal, *combined]))
    if not keys:
        raise ConfigurationError("no routing key is left: routing_key_status is empty")
    for key in keys:
        if len(key.encode("utf-8", errors="replace")) > MAX_NAME_BYTES:
            raise ConfigurationError(f"routing key {key!r} is longer than the {MAX_NAME_BYTES} bytes AMQP allows")
    return ExchangeBinding(name=exchange, routing_keys=keys, mirror=mirror)


def _keys(name: str, value: Any, *, dots: bool = True) -> list[str]:
    """The entries of a list of routing key parts."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise ConfigurationError(f"{name} must be a list of texts; {value!r} was given")
    for entry in value:
        if not isinstance(entry, str) or not entry:
            raise ConfigurationError(f"every entry of {name} must be a non-empty string; {entry!r} was given")
        if not dots and "." in entry:
            raise ConfigurationError(f"an entry of {name} must not contain a dot, it is one word of the key: {entry!r}")
    return value


def _checked_filter(filter_data: Any) -> Mapping[str, Any]:
    """The filter as it is stored: JSON, because a row and another process hold it."""
    if filter_data is None:
        return {}
    if not isinstance(filter_data, Mapping):
        raise ConfigurationError(f"filter_data must be a dict or None; {filter_data!r} was given")
    try:
        json.dumps(filter_data, allow_nan=False, ensure_ascii=False).encode("utf-8")  # a lone surrogate is no text
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"filter_data must be JSON: {error}") from error
    MessageFilter.deserialize(filter_data)  # refuses what no message could be held against
    return dict(filter_data)


def _check_name(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} must be a str, {type(value).__name__} was given: {value!r}")
    if not value:
        raise ConfigurationError(f"{name} must not be empty")
    if len(value.encode("utf-8", errors="replace")) > MAX_NAME_BYTES:
        raise ConfigurationError(f"{name} is longer than the {MAX_NAME_BYTES} bytes AMQP allows: {value!r}")
