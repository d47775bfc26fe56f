"""One message as a value, and the only two places that spell the dictionaries a DAG gets of it.

A `Message` knows neither channel nor delivery tag, so it cannot be acknowledged by mistake; answering the broker is
`broker.attachment`'s and `broker.blocking`'s part.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_rmq.messages.bodies import is_lossless, lenient_text, plain_body
from airflow_provider_rmq.messages.conf_bounds import ConfBounds
from airflow_provider_rmq.messages.json_values import json_object, storable_text

DEFAULT_BOUNDS = ConfBounds()


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
    #: What a filter callable sees: the AMQP basic properties as the client library delivers them.
    properties: Any = field(default=None, repr=False, compare=False)

    def text(self) -> str:
        """The body as text: inflated, UTF-8, every undecodable byte as U+FFFD. The only decoding in the package."""
        return lenient_text(self.body, self.content_encoding)

    def as_xcom(self) -> dict[str, Any]:
        """What operators, sensors and trigger events hand on: body, headers, routing_key, exchange.

        A body that text cannot hold (not UTF-8, or with a NUL) is handed on a second time, losslessly, as
        `body_base64`; the key is absent otherwise.
        """
        return {
            **self._body(),
            "headers": json_object(self.headers),
            "routing_key": storable_text(self.routing_key),
            "exchange": storable_text(self.exchange),
        }

    def as_conf(self, *, subscription_id: int | None, bounds: ConfBounds = DEFAULT_BOUNDS) -> dict[str, Any]:
        """The conf of a DAG run started at once by this message; `conf_bounds` says what is cut from a large one."""
        plain = plain_body(self.body, self.content_encoding)
        return {
            "source": "immediate",
            **bounds.of_body(plain, body=self.body, lossless=is_lossless(self.body, self.content_encoding)),
            **bounds.of_headers(json_object(self.headers)),
            "routing_key": storable_text(self.routing_key),
            "queue": self.queue,
            "subscription_id": subscription_id,
        }

    def _body(self) -> dict[str, str]:
        body = {"body": storable_text(self.text())}
        if not is_lossless(self.body, self.content_encoding):
            body["body_base64"] = base64.b64encode(self.body).decode("ascii")
        return body
