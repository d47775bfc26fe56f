"""One message as a value, and the only two places that spell the dictionaries a DAG gets of it.

A `Message` knows neither channel nor delivery tag, so it cannot be acknowledged by mistake; answering the broker is
`broker.attachment`'s and `broker.blocking`'s part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_rmq.messages.json_values import json_object


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Body, headers and routing data of one message."""

    body: bytes
    headers: Mapping[str, Any]
    routing_key: str
    exchange: str
    queue: str
    message_id: str | None = None
    redelivered: bool = False
    content_encoding: str | None = None

    def text(self) -> str:
        """The body as text: UTF-8, every undecodable byte as U+FFFD. The only decoding in the package."""
        return self.body.decode("utf-8", errors="replace")

    def as_xcom(self) -> dict[str, Any]:
        """What operators, sensors and trigger events hand on: body, headers, routing_key, exchange."""
        return {
            "body": self.text(),
            "headers": json_object(self.headers),
            "routing_key": self.routing_key,
            "exchange": self.exchange,
        }

    def as_conf(self, *, subscription_id: int | None) -> dict[str, Any]:
        """The conf of a DAG run started at once by this message."""
        return {
            "source": "immediate",
            "body": self.text(),
            "headers": json_object(self.headers),
            "routing_key": self.routing_key,
            "queue": self.queue,
            "subscription_id": subscription_id,
        }
