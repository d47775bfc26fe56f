"""A virtual host as the tests use it: declare, publish, look, delete, with pika and without the package under test.

Every call opens a connection of its own, so that it works before, during and after a fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel


@dataclass(frozen=True)
class Vhost:
    """One virtual host of one broker."""

    url: str = field(repr=False)

    @contextmanager
    def channel(self) -> Iterator[BlockingChannel]:
        """Open a channel on a connection of its own, with publisher confirms."""
        parameters = pika.URLParameters(self.url)
        parameters.socket_timeout = 10
        connection = pika.BlockingConnection(parameters)
        try:
            channel = connection.channel()
            channel.confirm_delivery()
            yield channel
        finally:
            if connection.is_open:
                connection.close()

    def server_version(self) -> str:
        """Return the version of the RabbitMQ behind the URL."""
        with self.channel() as channel:
            properties = channel.connection._impl.server_properties or {}
            return str(properties.get("version", "?"))

    def declare(self, queue: str, *, durable: bool = True, arguments: Mapping[str, Any] | None = None) -> str:
        """Make a queue and return its name."""
        with self.channel() as channel:
            channel.queue_declare(queue, durable=durable, arguments=dict(arguments or {}))
        return queue

    def publish(self, queue: str, *bodies: bytes | str, message_ids: Iterator[str] | None = None, **given: Any) -> None:
        """Put messages into a queue, each confirmed; *given* are properties of every message."""
        with self.channel() as channel:
            for body in bodies:
                message_id = next(message_ids) if message_ids else None
                properties = pika.BasicProperties(**{"message_id": message_id, "delivery_mode": 2, **given})
                raw = body.encode() if isinstance(body, str) else body
                channel.basic_publish("", queue, raw, properties, mandatory=True)

    def depth(self, queue: str) -> int:
        """Count the messages that are ready; what a consumer holds unacknowledged is not among them."""
        with self.channel() as channel:
            return int(channel.queue_declare(queue, passive=True).method.message_count)

    def consumers(self, queue: str) -> int:
        """Count the consumers of a queue."""
        with self.channel() as channel:
            return int(channel.queue_declare(queue, passive=True).method.consumer_count)

    def delete(self, queue: str) -> None:
        """Remove a queue, if it exists."""
        with self.channel() as channel:
            channel.queue_delete(queue)
