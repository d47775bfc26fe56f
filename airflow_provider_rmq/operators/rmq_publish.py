"""`RMQPublishOperator`: one message or a batch, confirmed by the broker."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow_provider_rmq.broker.names import check_name
from airflow_provider_rmq.broker.properties import publish_properties
from airflow_provider_rmq.compat import BaseOperator
from airflow_provider_rmq.errors import ConfigurationError
from airflow_provider_rmq.hooks.rmq import RMQHook
from airflow_provider_rmq.operators.payloads import bodies_of, has_template

logger = logging.getLogger("airflow.task")


class RMQPublishOperator(BaseOperator):
    """Publish to an exchange or straight to a queue, and succeed only when the broker has every message.

    A failure in the middle of a batch leaves a part of it published. The error names the indexes: confirmed, unroutable
    or refused, not sent, and unknown, which were sent without an answer (a time-out, a lost connection, an alarm) and
    may be in the queue or not. A retry of the task publishes all of them again, so a batch that must not be doubled
    needs a `message_id` its consumers look at, or one task for each message (`expand`).

    Args:
        rmq_conn_id: The Airflow connection.
        exchange: Empty for the default exchange.
        routing_key: For the default exchange the name of the queue.
        message: Text, bytes or a dict, or a list of them. Dicts are rendered inside and become JSON. None and an empty
            list publish nothing.
        queue_name: In place of exchange and routing key.
        content_type: As `application/json`.
        delivery_mode: 1 is transient, 2 is persistent.
        headers: May hold None, bool, int, float, Decimal, str, bytes, aware datetimes, lists and dicts.
        priority: 0 to 255; a queue with `x-max-priority` looks at it.
        expiration: TTL in milliseconds, as text or number, or a timedelta.
        correlation_id: Of the application.
        reply_to: Name of the queue for answers.
        message_id: Of the application; the watcher makes a DAG run's id of it.
        mandatory: A message that no queue takes fails the task. With False the broker drops it silently.
        confirm: Wait until the broker has the messages. With False they may be lost while the task succeeds.
    """

    template_fields: Sequence[str] = ("exchange", "routing_key", "message")
    ui_color = "#ff6600"

    def __init__(
        self,
        *,
        rmq_conn_id: str = "rmq_default",
        exchange: str = "",
        routing_key: str = "",
        message: str | bytes | dict[str, Any] | list[str] | list[bytes] | list[dict[str, Any]] | None = None,
        queue_name: str | None = None,
        content_type: str | None = None,
        delivery_mode: int | None = None,
        headers: Mapping[str, Any] | None = None,
        priority: int | None = None,
        expiration: str | int | timedelta | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        message_id: str | None = None,
        mandatory: bool = True,
        confirm: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        for parameter, value in (("mandatory", mandatory), ("confirm", confirm)):
            if not isinstance(value, bool):
                raise ConfigurationError(f"{parameter} must be a bool, not {value!r}")
        self.rmq_conn_id = rmq_conn_id
        self.exchange = exchange
        self.routing_key = routing_key
        self.message = message
        self.queue_name = queue_name
        if queue_name is not None:
            self.exchange = ""
            self.routing_key = check_name("queue_name", queue_name)
        self.content_type = content_type
        self.delivery_mode = delivery_mode
        self.headers = headers
        self.priority = priority
        self.expiration = expiration
        self.correlation_id = correlation_id
        self.reply_to = reply_to
        self.message_id = message_id
        self.mandatory = mandatory
        self.confirm = confirm
        self._properties()

    def render_template(self, content: Any, *args: Any, **kwargs: Any) -> Any:
        """Leave text without a template as it is: native rendering would read `1.0` as a number."""
        if isinstance(content, str) and not has_template(content):
            return content
        return super().render_template(content, *args, **kwargs)

    def execute(self, context: Any) -> None:
        """Publish."""
        bodies = bodies_of(self.message)
        target = f"exchange {self.exchange!r} with routing key {self.routing_key!r}"
        if not bodies:
            logger.warning("Nothing is published to %s: message is %r", target, self.message)
            return
        with RMQHook(self.rmq_conn_id) as hook:
            hook.publish_messages(
                self.exchange,
                self.routing_key,
                bodies,
                self._properties(),
                mandatory=self.mandatory,
                confirm=self.confirm,
            )
        logger.info("Published %d message(s) to %s%s", len(bodies), target, "" if self.confirm else ", unconfirmed")

    def _properties(self) -> Any:
        return publish_properties(
            content_type=self.content_type,
            delivery_mode=self.delivery_mode,
            headers=self.headers,
            priority=self.priority,
            expiration=self.expiration,
            correlation_id=self.correlation_id,
            reply_to=self.reply_to,
            message_id=self.message_id,
        )
