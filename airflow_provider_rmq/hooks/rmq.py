"""`RMQHook`: RabbitMQ's verbs for DAG authors, on one connection that opens when it is first needed.

How the connection is made, how messages are taken and published, and what a refusal means is `broker`'s part.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from airflow_provider_rmq.broker.blocking import BlockingSession, Qos
from airflow_provider_rmq.broker.blocking_publisher import BlockingPublisher, encode_body
from airflow_provider_rmq.broker.diagnosis import diagnose
from airflow_provider_rmq.broker.names import check_name
from airflow_provider_rmq.broker.refusals import Operation
from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.broker.taking_verbs import BlockingTaker
from airflow_provider_rmq.broker.topology_arguments import dead_letter_arguments, queue_arguments
from airflow_provider_rmq.compat import BaseHook, connection_record
from airflow_provider_rmq.errors import QueueMissing, TopologyConflict
from airflow_provider_rmq.hooks.connection_form import connection_form_widgets, ui_field_behaviour
from airflow_provider_rmq.messages.judge import MessageJudge

# The INFO lines of pika 1.x tell of every socket and channel; they drown a task's log.
logging.getLogger("pika").setLevel(logging.WARNING)


class RMQHook(BaseHook):
    """RabbitMQ through pika's blocking connection.

    The connection is opened by the first call, again after a loss, and closed by `close`, at the end of a `with`
    block, or when the hook is collected. A hook is for one thread.

    Args:
        rmq_conn_id: The Airflow connection.
        vhost: Instead of the vhost of the connection.
        qos: Prefetch of the channel: `prefetch_size`, `prefetch_count`, `global_qos`.
        retry_count: Attempts to connect.
        retry_delay: Seconds before the second attempt, doubled for each further one, at most 30.
    """

    conn_name_attr = "rmq_conn_id"
    default_conn_name = "rmq_default"
    conn_type = "amqp"
    hook_name = "RabbitMQ"

    get_connection_form_widgets = staticmethod(connection_form_widgets)
    get_ui_field_behaviour = staticmethod(ui_field_behaviour)

    def __init__(
        self,
        rmq_conn_id: str = default_conn_name,
        vhost: str | None = None,
        qos: Mapping[str, Any] | None = None,
        retry_count: int = 3,
        retry_delay: float = 1.0,
    ) -> None:
        super().__init__()
        self.rmq_conn_id = rmq_conn_id
        self.vhost = vhost
        self.qos = qos
        self.retry_count = retry_count
        self.retry_delay = retry_delay
        self._session = BlockingSession(
            self._load_settings, qos=Qos.of(qos), retry_count=retry_count, retry_delay=retry_delay
        )
        self._publisher = BlockingPublisher(self._session)
        self._taker = BlockingTaker(self._session)

    def _load_settings(self) -> ConnectionSettings:
        return ConnectionSettings.from_record(
            connection_record(self.get_connection(self.rmq_conn_id)), vhost=self.vhost
        )

    # --- the connection ----------------------------------------------------------------------------------------------

    def get_conn(self) -> Any:
        """The open pika `BlockingConnection`."""
        return self._session.connection()

    def get_channel(self) -> Any:
        """The open pika `BlockingChannel`, with `qos` applied; a new one where the old one was closed."""
        return self._session.channel()

    def close(self) -> None:
        """Close channel and connection; what was delivered and not acknowledged goes back to its queue."""
        self._session.close()

    def __enter__(self) -> RMQHook:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_session"):  # the constructor may have refused an argument
            self.close()

    def test_connection(self) -> tuple[bool, str]:
        """Whether a connection comes about, and if not, what is wrong; never raises."""
        return diagnose(self._load_settings)

    # --- queues ------------------------------------------------------------------------------------------------------

    def queue_declare(
        self,
        queue_name: str,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, Any] | None = None,
        *,
        queue_type: str | None = None,
    ) -> Any:
        """Declare a queue, or with `passive` only see whether it exists. An exclusive one ends with the connection.

        An empty name lets the broker choose one; `queue_type` (`classic`, `quorum`, `stream`) stands in place of the
        argument `x-queue-type`.
        """
        check_name("queue_name", queue_name, may_be_empty=True)
        merged = queue_arguments(
            arguments, queue_type, durable=durable or passive, exclusive=exclusive, auto_delete=auto_delete
        )
        return self._session.call(
            Operation(what=f"declare queue {queue_name!r}", queue_permission="configure", exchange_permission="write"),
            lambda channel: channel.queue_declare(
                queue_name,
                passive=passive,
                durable=durable,
                exclusive=exclusive,
                auto_delete=auto_delete,
                arguments=merged,
            ),
        )

    def queue_delete(self, queue_name: str, if_unused: bool = False, if_empty: bool = False) -> Any:
        """Delete a queue, with the conditions only where it has no consumer or no message."""
        check_name("queue_name", queue_name)
        return self._session.call(
            Operation(what=f"delete queue {queue_name!r}"),
            lambda channel: channel.queue_delete(queue_name, if_unused=if_unused, if_empty=if_empty),
        )

    def queue_bind(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> Any:
        """Bind a queue to an exchange."""
        _check_binding(queue=queue, exchange=exchange, routing_key=routing_key)
        return self._session.call(
            _binding("bind", queue, exchange, routing_key),
            lambda channel: channel.queue_bind(queue, exchange, routing_key, arguments),
        )

    def queue_unbind(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> Any:
        """Undo a binding with the same key and arguments."""
        _check_binding(queue=queue, exchange=exchange, routing_key=routing_key)
        return self._session.call(
            _binding("unbind", queue, exchange, routing_key),
            lambda channel: channel.queue_unbind(queue, exchange, routing_key, arguments),
        )

    def queue_purge(self, queue_name: str) -> Any:
        """Remove the messages that are ready in a queue."""
        check_name("queue_name", queue_name)
        return self._session.call(
            Operation(what=f"purge queue {queue_name!r}", queue_permission="read"),
            lambda channel: channel.queue_purge(queue_name),
        )

    def queue_info(self, queue_name: str) -> dict[str, Any]:
        """Messages and consumers of a queue.

        A missing queue has `exists` False and no `consumer_count`. A queue that is exclusive to another connection
        exists, and its counts are None: the broker tells them to its owner only.
        """
        try:
            frame = self.queue_declare(queue_name, passive=True)
        except QueueMissing:
            return {"queue": queue_name, "message_count": 0, "exists": False}
        except TopologyConflict:
            return {"queue": queue_name, "message_count": None, "consumer_count": None, "exists": True}
        return {
            "queue": queue_name,
            "message_count": frame.method.message_count,
            "consumer_count": frame.method.consumer_count,
            "exists": True,
        }

    # --- exchanges ---------------------------------------------------------------------------------------------------

    def exchange_declare(
        self,
        exchange: str,
        exchange_type: str = "direct",
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> Any:
        """Declare an exchange, or with `passive` only see whether it exists."""
        check_name("exchange", exchange)
        return self._session.call(
            Operation(what=f"declare exchange {exchange!r}"),
            lambda channel: channel.exchange_declare(
                exchange,
                exchange_type,
                passive=passive,
                durable=durable,
                auto_delete=auto_delete,
                internal=internal,
                arguments=arguments,
            ),
        )

    def exchange_delete(self, exchange: str, if_unused: bool = False) -> Any:
        """Delete an exchange, with the condition only where nothing is bound to it."""
        check_name("exchange", exchange)
        return self._session.call(
            Operation(what=f"delete exchange {exchange!r}"),
            lambda channel: channel.exchange_delete(exchange, if_unused=if_unused),
        )

    def exchange_bind(
        self, destination: str, source: str, routing_key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> Any:
        """Let messages flow from one exchange to another."""
        _check_binding(destination=destination, source=source, routing_key=routing_key)
        return self._session.call(
            _binding("bind", destination, source, routing_key),
            lambda channel: channel.exchange_bind(destination, source, routing_key, arguments),
        )

    def exchange_unbind(
        self, destination: str, source: str, routing_key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> Any:
        """Undo a binding between exchanges with the same key and arguments."""
        _check_binding(destination=destination, source=source, routing_key=routing_key)
        return self._session.call(
            _binding("unbind", destination, source, routing_key),
            lambda channel: channel.exchange_unbind(destination, source, routing_key, arguments),
        )

    # --- messages ----------------------------------------------------------------------------------------------------

    def basic_publish(
        self,
        exchange: str,
        routing_key: str,
        body: str | bytes,
        properties: Any = None,
        mandatory: bool = True,
        confirm: bool = True,
    ) -> None:
        """Publish a message and wait until the broker has it.

        Args:
            exchange: Empty for the default exchange, whose routing keys are queue names.
            routing_key: Its routing key.
            body: Text is encoded as UTF-8.
            properties: pika's `BasicProperties`.
            mandatory: A message that no queue takes is an error; without `confirm` only a line in the log.
            confirm: Wait for the broker's confirm. Without it a message may be lost without a trace.

        Raises:
            Unroutable: No queue takes the message.
            PublishFailed: The broker refused it or did not confirm it.
        """
        self.publish_messages(exchange, routing_key, [body], properties, mandatory=mandatory, confirm=confirm)

    def publish_messages(
        self,
        exchange: str,
        routing_key: str,
        bodies: Sequence[str | bytes],
        properties: Any = None,
        *,
        mandatory: bool = True,
        confirm: bool = True,
    ) -> None:
        """Publish messages with the same properties, the confirms of many in flight at a time.

        A failure in the middle leaves the batch in part: the error's `report` and text name the indexes that are
        confirmed, that came back or were refused, that were not sent, and that are unknown, which means sent without
        an answer: such a message may be there or not, and sending it again may double it.

        Raises:
            Unroutable: No queue takes a message.
            PublishFailed: The broker refused a message, or did not confirm it in `blocked_connection_timeout`.
        """
        check_name("exchange", exchange, may_be_empty=True)
        check_name("routing_key", routing_key, may_be_empty=True)
        encoded = [encode_body(body) for body in bodies]
        self._publisher.publish(exchange, routing_key, encoded, properties, mandatory=mandatory, confirm=confirm)

    def consume_messages(
        self,
        queue_name: str,
        max_messages: int = 1,
        auto_ack: bool = False,
        inactivity_timeout: float = 1.0,
        *,
        stream_offset: str | int | None = None,
    ) -> list[dict[str, Any]]:
        """Take messages from a queue; without `auto_ack` answer each with `ack` or `nack` on this hook.

        Never takes more than `max_messages`, and goes on beyond a full prefetch window.

        Args:
            queue_name: The queue.
            max_messages: The most to take.
            auto_ack: The broker forgets each message as it leaves: what happens to it afterwards is not undone.
            inactivity_timeout: Seconds without a message after which it ends.
            stream_offset: Where to begin in a stream queue: `first`, `last`, `next` or a number.

        Returns:
            For each message `method`, `properties`, `body` as text (a byte that is not UTF-8 as U+FFFD), and
            `body_bytes` as it came.
        """
        check_name("queue_name", queue_name)
        return self._taker.take(
            queue_name,
            max_messages,
            auto_ack=auto_ack,
            inactivity_timeout=inactivity_timeout,
            stream_offset=stream_offset,
        )

    def take_matches(
        self,
        queue_name: str,
        judge: MessageJudge,
        max_messages: int,
        inactivity_timeout: float = 1.0,
        *,
        stream_offset: str | int | None = None,
    ) -> list[dict[str, Any]]:
        """Judge up to `max_messages` and answer them all at the end; the accepted ones, as XCom takes them."""
        check_name("queue_name", queue_name)
        return self._taker.take_matches(
            queue_name, judge, max_messages, inactivity_timeout=inactivity_timeout, stream_offset=stream_offset
        )

    def take_first_match(self, queue_name: str, judge: MessageJudge, batch_size: int) -> dict[str, Any] | None:
        """Look at up to `batch_size` messages, no further than the first accepted one, and return it."""
        check_name("queue_name", queue_name)
        return self._taker.take_first_match(queue_name, judge, batch_size)

    def ack(self, delivery_tag: int) -> None:
        """Acknowledge a delivery of `consume_messages`.

        Raises:
            ConnectionLost: Its channel is closed, so the message is back in its queue.
        """
        self._session.settle(
            Operation(what=f"acknowledge delivery {delivery_tag}"), lambda channel: channel.basic_ack(delivery_tag)
        )

    def nack(self, delivery_tag: int, requeue: bool = True) -> None:
        """Return a delivery of `consume_messages` to its queue, or without `requeue` dead-letter it.

        Raises:
            ConnectionLost: Its channel is closed, so the message is back in its queue.
        """
        self._session.settle(
            Operation(what=f"return delivery {delivery_tag}"),
            lambda channel: channel.basic_nack(delivery_tag, requeue=requeue),
        )

    @staticmethod
    def build_dlq_arguments(
        dlx_exchange: str = "", dlx_routing_key: str | None = None, message_ttl: int | None = None
    ) -> dict[str, Any]:
        """Arguments for a queue whose rejected and expired messages go to `dlx_exchange`; the TTL in milliseconds."""
        return dead_letter_arguments(dlx_exchange, dlx_routing_key, message_ttl)


def _check_binding(*, routing_key: str, **names: str) -> None:
    check_name("routing_key", routing_key, may_be_empty=True)
    for parameter, name in names.items():
        check_name(parameter, name)


def _binding(verb: str, destination: str, source: str, routing_key: str) -> Operation:
    """Binding writes to the destination and reads from the source; RabbitMQ names the one that was refused."""
    return Operation(
        what=f"{verb} {destination!r} to exchange {source!r} with routing key {routing_key!r}",
        queue_permission="write",
        exchange_permission="read (as source) or write (as destination)",
    )
