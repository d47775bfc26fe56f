"""Values with defaults, so that a test names only what it is about."""

from typing import Any

from airflow_provider_rmq.messages.message import Message


def message(body: bytes | str = b"", **changes: Any) -> Message:
    fields: dict[str, Any] = {"headers": {}, "routing_key": "orders", "exchange": "", "queue": "orders"}
    return Message(body=body.encode() if isinstance(body, str) else body, **{**fields, **changes})
