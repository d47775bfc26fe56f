"""The rules for a subscription's arguments, the same for the decorator and for the scan of DAG files."""

from __future__ import annotations

from typing import Any

from airflow_provider_rmq.errors import ConfigurationError
from airflow_provider_rmq.watcher.subscription import Declaration, SubscriptionKey

#: The Airflow connection of a subscription that names none.
DEFAULT_CONN_ID = "rmq_default"
#: Bytes; the length of an AMQP short string (AMQP 0-9-1, section 4.2.5.3) and of the key columns.
MAX_QUEUE_NAME_BYTES = 255
#: Characters; the width of the key columns of the subscriptions table.
MAX_KEY_LENGTH = 250


def build_subscriptions(*, dag_id: str, queue: Any, conn_id: Any = DEFAULT_CONN_ID) -> list[Declaration]:
    """Check the arguments of one `rmq_trigger` and return what it declares.

    Raises:
        ConfigurationError: An argument has the wrong type, is too long, or is missing; also a `ValueError`.
    """
    _check_text("queue", queue)
    if not queue:
        raise ConfigurationError("queue must name a queue, an empty text was given")
    if len(queue.encode("utf-8", errors="replace")) > MAX_QUEUE_NAME_BYTES:
        raise ConfigurationError(f"queue is longer than the {MAX_QUEUE_NAME_BYTES} bytes AMQP allows: {queue!r}")
    _check_text("conn_id", conn_id)
    if not conn_id:
        raise ConfigurationError("conn_id must name an Airflow connection, an empty text was given")
    for name, value in (("queue", queue), ("conn_id", conn_id), ("dag_id", dag_id)):
        if len(value) > MAX_KEY_LENGTH:
            raise ConfigurationError(f"{name} has {len(value)} characters, {MAX_KEY_LENGTH} are allowed: {value!r}")
    return [Declaration(key=SubscriptionKey(dag_id, queue, conn_id))]


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} must be a str, {type(value).__name__} was given: {value!r}")
