"""Publishing on a `BlockingSession`: with confirms through `confirms`, without them straight into the socket."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

from airflow_provider_rmq.broker.blocking import BlockingSession
from airflow_provider_rmq.broker.confirms import ConfirmingChannel, Outgoing, publishing
from airflow_provider_rmq.broker.properties import Properties
from airflow_provider_rmq.errors import ConfigurationError
from airflow_provider_rmq.messages.misses import is_power_of_ten

logger = logging.getLogger("airflow.task")


def encode_body(body: object) -> bytes:
    """A message body as bytes; text becomes UTF-8.

    Raises:
        ConfigurationError: It is neither text nor bytes.
    """
    if isinstance(body, str):
        return body.encode("utf-8", errors="surrogatepass")
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body)
    raise ConfigurationError(f"body must be str or bytes, not {type(body).__name__}")


class BlockingPublisher:
    """Publishes batches on the session's connection; keeps its channel in confirm mode between them."""

    def __init__(self, session: BlockingSession) -> None:
        self._session = session
        self._confirming: ConfirmingChannel | None = None
        self._watched: BlockingChannel | None = None
        self._returned = 0

    def publish(
        self,
        exchange: str,
        routing_key: str,
        bodies: Sequence[bytes],
        properties: Any,
        *,
        mandatory: bool,
        confirm: bool,
    ) -> None:
        """Publish the bodies in their order, all with the same properties.

        Raises:
            ConfigurationError: A property that AMQP cannot carry; nothing was sent.
            Unroutable: No queue takes a message.
            PublishFailed: The broker refused a message or did not confirm it.
        """
        ready = Properties.of(properties)
        ready.encode()
        if not bodies:
            return
        outgoing = Outgoing(exchange=exchange, routing_key=routing_key, bodies=bodies, properties=ready)
        if confirm:
            self._confirming_channel().publish(outgoing, mandatory=mandatory)
        else:
            self._publish_unconfirmed(outgoing, mandatory=mandatory)

    def _confirming_channel(self) -> ConfirmingChannel:
        connection = self._session.connection()
        if self._confirming is None or not self._confirming.is_open:
            self._confirming = ConfirmingChannel(connection, self._session.settings.blocked_connection_timeout)
        return self._confirming

    def _publish_unconfirmed(self, outgoing: Outgoing, *, mandatory: bool) -> None:
        channel = self._session.channel()
        if mandatory and channel is not self._watched:
            channel.add_on_return_callback(self._report_return)
            self._watched = channel
        try:
            for body in outgoing.bodies:
                channel.basic_publish(
                    outgoing.exchange, outgoing.routing_key, body, outgoing.properties, mandatory=mandatory
                )
        except (pika.exceptions.AMQPError, OSError) as error:
            self._session.raise_translated(error, publishing(outgoing.exchange, outgoing.routing_key))

    def _report_return(self, _channel: object, method: Any, _properties: object, _body: bytes) -> None:
        self._returned += 1
        if is_power_of_ten(self._returned, first=1):
            logger.warning(
                "Exchange %r returned a message with routing key %r: %s (%d so far)",
                method.exchange,
                method.routing_key,
                method.reply_text,
                self._returned,
            )
