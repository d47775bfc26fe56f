"""`BlockingSession`: one AMQP connection for code that waits, opened when needed and again when lost.

What happens on it is next door: `broker.batches` takes messages, `broker.confirms` publishes them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from airflow_provider_rmq.broker.pika_connection import BoundedConnection, open_connection
from airflow_provider_rmq.broker.queue_facts import exclusive_owner
from airflow_provider_rmq.broker.refusals import Operation, explain_connection, locked_queue, refusal
from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.errors import BrokerError, ConfigurationError, ConnectionLost, describe

logger = logging.getLogger("airflow.task")

T = TypeVar("T")

#: Seconds; the longest pause between two attempts to connect.
MAX_RETRY_PAUSE = 30.0
#: Seconds without a call after which the socket is looked at before it is used: the broker may have hung up meanwhile.
IDLE_LIMIT = 1.0

#: Acknowledgements that a quorum queue's client in the broker passes on at once; it holds more than 32 commands back.
PROMPT_SETTLEMENTS = 16
#: Seconds until they are passed on; 0.05 was enough for 10,000 on one node of RabbitMQ 3.10.8.
SETTLEMENT_PAUSE = 0.15

#: What pika raises when a connection is gone or does not come about.
CONNECTION_ERRORS = (pika.exceptions.AMQPConnectionError, pika.exceptions.ConnectionWrongStateError, OSError)
#: Answers that another attempt will not change.
_FINAL = (
    pika.exceptions.ProbableAuthenticationError,
    pika.exceptions.ProbableAccessDeniedError,
    pika.exceptions.IncompatibleProtocolError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Qos:
    """Prefetch of a channel; 0 is no limit."""

    prefetch_size: int = 0
    prefetch_count: int = 0
    global_qos: bool = False

    @classmethod
    def of(cls, qos: Mapping[str, Any] | None) -> Qos | None:
        """The `qos` argument of hook and operator.

        Raises:
            ConfigurationError: An unknown key or a value of the wrong kind.
        """
        if qos is None:
            return None
        if not isinstance(qos, Mapping):
            raise ConfigurationError(f"qos must be a dict or None, not {qos!r}")
        unknown = sorted(str(key) for key in qos if key not in cls.__slots__)
        if unknown:
            raise ConfigurationError(f"qos has {', '.join(cls.__slots__)}, not {', '.join(unknown)}")
        found = cls(**qos)
        for key in ("prefetch_size", "prefetch_count"):
            value = getattr(found, key)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ConfigurationError(f"qos[{key!r}] must be a whole number of at least 0, not {value!r}")
        if not isinstance(found.global_qos, bool):
            raise ConfigurationError(f"qos['global_qos'] must be a bool, not {found.global_qos!r}")
        return found


class BlockingSession:
    """A lazily opened connection with one channel for calls; not safe for use by several threads.

    Args:
        load_settings: Looks the Airflow connection up; called once, when the session is first used.
        qos: Prefetch of the channel for calls.
        retry_count: Attempts to connect.
        retry_delay: Seconds before the second attempt; each further pause is twice as long, up to `MAX_RETRY_PAUSE`.
    """

    def __init__(
        self,
        load_settings: Callable[[], ConnectionSettings],
        *,
        qos: Qos | None = None,
        retry_count: int = 3,
        retry_delay: float = 1.0,
    ) -> None:
        self._load_settings = load_settings
        self._settings: ConnectionSettings | None = None
        self.qos = qos
        self._retry_count = retry_count
        self._retry_delay = retry_delay
        self._connection: BoundedConnection | None = None
        self._channel: BlockingChannel | None = None
        self._last_use = 0.0
        self._settlements = 0

    @property
    def settings(self) -> ConnectionSettings:
        """How the broker is reached."""
        if self._settings is None:
            self._settings = self._load_settings()
        return self._settings

    def connection(self) -> BoundedConnection:
        """The open connection; opened, or opened again, where there is none.

        Raises:
            Exception: pika's own error of the last attempt, unchanged.
        """
        connection = self._connection
        if connection is None or not self._is_alive(connection):
            self._channel = None
            connection = self._connection = self._connect()
        self._last_use = time.monotonic()
        return connection

    def channel(self) -> BlockingChannel:
        """The channel for calls, with `qos` applied; opened again where the broker closed it."""
        connection = self.connection()
        if self._channel is None or not self._channel.is_open:
            channel = connection.channel()
            if self.qos is not None:
                channel.basic_qos(self.qos.prefetch_size, self.qos.prefetch_count, self.qos.global_qos)
            self._channel = channel
        return self._channel

    def call(self, operation: Operation, function: Callable[[BlockingChannel], T]) -> T:
        """Run one call on the channel; what the broker refuses is raised in words.

        Raises:
            BrokerError: The broker refused, or the connection was lost.
        """
        channel = self.channel()
        try:
            return function(channel)
        except (pika.exceptions.AMQPError, OSError) as error:
            self.raise_translated(error, operation)

    def settle(self, operation: Operation, function: Callable[[BlockingChannel], None]) -> None:
        """Answer a delivery, on the very channel it came on.

        Raises:
            ConnectionLost: That channel is gone, and with it the delivery, which is back in its queue.
        """
        if self._channel is None or not self._channel.is_open:
            raise ConnectionLost(
                f"{operation.what}: the channel of this delivery is closed, so the message is back in its queue"
            )
        self.call(operation, function)
        self._settlements += 1

    def let_settlements_arrive(self, channel: BlockingChannel, count: int) -> None:
        """Wait before a channel is closed on which many deliveries were answered.

        RabbitMQ passes acknowledgements on to a quorum queue in few commands at a time and drops those it still holds
        when the channel closes: the messages come again (3.10.8: 6,700 of 10,000). AMQP has no answer to an
        acknowledgement, so time has to do. The call makes sure that the broker has read them all.
        """
        if count > PROMPT_SETTLEMENTS and channel.is_open:
            channel.basic_qos()
            channel.connection.sleep(SETTLEMENT_PAUSE)

    def raise_translated(self, error: BaseException, operation: Operation) -> NoReturn:
        """Raise what a client library's error means.

        Raises:
            BrokerError: Always; the cause is `error`.
        """
        if isinstance(error, BrokerError):
            raise error
        translated = refusal(error, operation)
        if translated is not None:
            locked = locked_queue(error)
            owner = exclusive_owner(self.settings, locked) if locked else None
            raise (type(translated)(f"{translated}. It belongs to {owner}") if owner else translated) from error
        if isinstance(error, CONNECTION_ERRORS):
            raise ConnectionLost(
                f"{operation.what}: the connection to the broker was lost ({describe(error)}). Code that runs longer "
                f"than two heartbeats of {self.settings.blocking_heartbeat} s between two calls loses it, too"
            ) from error
        raise BrokerError(f"{operation.what}: {describe(error)}") from error

    def close(self) -> None:
        """Close the connection; idempotent, errors are logged."""
        connection, channel, settlements = self._connection, self._channel, self._settlements
        self._connection, self._channel, self._settlements = None, None, 0
        if connection is None or not connection.is_open:
            return
        try:
            if channel is not None:
                self.let_settlements_arrive(channel, settlements)
            connection.close()
        except Exception as error:  # noqa: BLE001 - nobody waits for the answer, and the socket closes either way
            logger.warning("Closing the AMQP connection of %s failed: %s", self.settings.conn_id, describe(error))

    def _is_alive(self, connection: BoundedConnection) -> bool:
        if not connection.is_open:
            return False
        if time.monotonic() - self._last_use < IDLE_LIMIT:
            return True
        try:
            connection.process_data_events(0)  # reads what came meanwhile: heartbeats, or the end of the connection
        except (pika.exceptions.AMQPError, OSError) as error:
            logger.info("The idle AMQP connection of %s was lost: %s", self.settings.conn_id, describe(error))
        return bool(connection.is_open)

    def _connect(self) -> BoundedConnection:
        attempts = Retrying(
            stop=stop_after_attempt(max(self._retry_count, 1)),
            wait=wait_exponential(multiplier=self._retry_delay, max=MAX_RETRY_PAUSE),
            retry=retry_if_exception(_may_pass),
            before_sleep=_report_pause,
            reraise=True,
        )
        return attempts(self._connect_to_any)

    def _connect_to_any(self) -> BoundedConnection:
        """Try each endpoint in turn; the error of the last one counts."""
        failure: Exception | None = None
        for endpoint in self.settings.endpoints:
            try:
                connection = open_connection(self.settings, endpoint)
            except CONNECTION_ERRORS as error:
                failure = error
                words = explain_connection(error, str(endpoint), user=self.settings.login, vhost=self.settings.vhost)
                logger.warning("Connection %s: %s", self.settings.conn_id, words)
                continue
            logger.info("Connection %s: connected to %s", self.settings.conn_id, endpoint)
            return connection
        raise failure or ConfigurationError(f"connection {self.settings.conn_id} names no host")


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, CONNECTION_ERRORS) and not isinstance(error, _FINAL)


def _report_pause(state: RetryCallState) -> None:
    pause = state.next_action.sleep if state.next_action else 0.0
    logger.warning("No AMQP connection at attempt %d; the next one is in %g s", state.attempt_number, pause)
