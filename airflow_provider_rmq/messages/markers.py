"""What a cooldown marker carries of the message that opened the window, and how the DAG gets it.

Only with `keep_payload`. Body and headers travel as one JSON object in the marker's body, already in the form of a
DAG run's conf: dead-lettering adds headers of its own to those of a message, and a header table has to fit a frame.
A header of the marker says that it is so; any other marker stands for no message and gives empty ones.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from airflow_provider_rmq.messages.conf_bounds import ConfBounds
from airflow_provider_rmq.messages.message import DEFAULT_BOUNDS, Message

#: Header of a marker that carries a message; its value is the version of the form.
PAYLOAD_HEADER = "x-rmq-watcher-payload"
_VERSION = 1
_CARRIED = ("body", "body_base64", "headers", "truncated", "truncated_headers")


@dataclass(frozen=True, slots=True)
class MarkerPayload:
    """The body of a marker that carries a message."""

    body: bytes

    @classmethod
    def of(cls, message: Message, bounds: ConfBounds = DEFAULT_BOUNDS) -> MarkerPayload:
        """What is kept of a message."""
        conf = message.as_conf(subscription_id=None, bounds=bounds)
        return cls(json.dumps({key: conf[key] for key in _CARRIED if key in conf}, ensure_ascii=False).encode())


def payload_header() -> dict[str, Any]:
    """The header that tells such a marker from one without."""
    return {PAYLOAD_HEADER: _VERSION}


def cooldown_conf(marker: Message) -> dict[str, Any]:
    """The conf of the DAG run that the end of a window starts; `marker` comes from the fire queue."""
    return {
        "source": "cooldown",
        "dag_id": marker.routing_key,
        **_carried(marker),
        "routing_key": marker.routing_key,
        "queue": marker.queue,
        "subscription_id": None,
    }


def _carried(marker: Message) -> dict[str, Any]:
    nothing: dict[str, Any] = {"body": "", "headers": {}}
    if marker.headers.get(PAYLOAD_HEADER) != _VERSION:
        return nothing
    try:
        found = json.loads(marker.body, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return nothing  # somebody else's message with our header; the window has ended all the same
    match found:
        case {"body": str(), "headers": dict()}:
            return {key: found[key] for key in _CARRIED if key in found}
    return nothing


def _refuse(constant: str) -> None:
    """A conf is JSON, which has no NaN.

    Raises:
        ValueError: Always.
    """
    raise ValueError(f"{constant} is no JSON")
