"""What `RMQPublishOperator(message=...)` accepts, as the bodies to publish."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_rmq.errors import ConfigurationError


def bodies_of(message: Any) -> list[str | bytes]:
    """The bodies of one message or of a list of them; none for None and for an empty list.

    Dicts become JSON, bytes stay bytes, everything else becomes `str()`. An empty text, an empty dict and 0 are
    messages like any other.

    Raises:
        ConfigurationError: A dict that is no JSON; the text names its index.
    """
    if message is None:
        return []
    if isinstance(message, Sequence) and not isinstance(message, (str, bytes, bytearray)):
        return [_body(each, f"message[{index}]") for index, each in enumerate(message)]
    return [_body(message, "message")]


def _body(message: Any, where: str) -> str | bytes:
    if isinstance(message, (bytes, bytearray)):
        return bytes(message)
    if not isinstance(message, Mapping):
        return str(message)
    try:
        return json.dumps(message, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{where} cannot be written as JSON: {error}") from error


def has_template(text: str) -> bool:
    """Whether a text has anything for Jinja to do."""
    return any(mark in text for mark in ("{{", "{%", "{#"))
