"""What a subscription is: "messages of this queue start this DAG". Values only; `rows` stores them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from airflow_provider_rmq.errors import ConfigurationError


class Source(str, Enum):
    """Who owns a subscription; the values are stored."""

    DAG_FILE = "dag_file"
    UI = "ui"


class OnFilterError(str, Enum):
    """What becomes of a message on which the filter cannot be evaluated; the values are stored."""

    REQUEUE = "requeue"
    DEAD_LETTER = "dead_letter"

    @classmethod
    def of(cls, value: object) -> OnFilterError:
        """The policy of an argument or a column, where nothing means `REQUEUE`.

        Raises:
            ConfigurationError: It is none of the values.
        """
        if value is None:
            return cls.REQUEUE
        if isinstance(value, str) and value in {item.value for item in cls}:
            return cls(value)
        raise ConfigurationError(f'on_filter_error must be "requeue" or "dead_letter"; {value!r} was given')


class SubscriptionKey(NamedTuple):
    """The unique key of the subscriptions table."""

    dag_id: str
    queue_name: str
    conn_id: str

    def __str__(self) -> str:
        """As it stands in log lines."""
        return f"{self.queue_name} → {self.dag_id}, {self.conn_id}"


class ConsumerKey(NamedTuple):
    """What identifies one consumer of this process; no subscription stands for the fire queue."""

    subscription_id: int | None
    queue_name: str
    conn_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeBinding:
    """The topic exchange a subscription listens to, and the routing keys it wants of it.

    Args:
        mirror: Whether everything that passes the exchange is kept for eight hours in a queue of its own.
    """

    name: str
    routing_keys: tuple[str, ...]
    mirror: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A subscription as its author declares it, before the database knows it.

    Args:
        key: Which messages start which DAG.
        filter_data: `MessageFilter.serialize()`'s form; empty accepts every message.
        cooldown: Seconds; 0 starts a run with each message.
        ack_unmatched: Acknowledge what the filter rejects.
        exchange: Set in exchange mode only; the queue is then the provider's own.
        keep_payload: The message that opens a cooldown window reaches the DAG.
        on_filter_error: Whether a message that never can be read goes back for ever.
        origin: Where it is declared, for log lines; no part of what is declared.
    """

    key: SubscriptionKey
    filter_data: Mapping[str, Any] = field(default_factory=dict, hash=False)
    cooldown: int = 0
    ack_unmatched: bool = False
    exchange: ExchangeBinding | None = None
    keep_payload: bool = False
    on_filter_error: OnFilterError = OnFilterError.REQUEUE
    origin: str = field(default="", compare=False)

    def as_dict(self) -> dict[str, Any]:
        """The form in which the DAG object carries it."""
        entry: dict[str, Any] = {
            "queue_name": self.key.queue_name,
            "conn_id": self.key.conn_id,
            "filter_data": dict(self.filter_data),
            "cooldown": self.cooldown,
            "ack_unmatched": self.ack_unmatched,
        }
        if self.exchange is not None:
            entry |= {"exchange": self.exchange.name, "routing_keys": list(self.exchange.routing_keys)}
            entry |= {} if self.exchange.mirror else {"mirror": False}
        if self.keep_payload:
            entry["keep_payload"] = True
        if self.on_filter_error is not OnFilterError.REQUEUE:
            entry["on_filter_error"] = self.on_filter_error.value
        return entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """An enabled subscription as the database holds it; `keep_payload` comes from its declaration."""

    id: int
    key: SubscriptionKey
    filter_data: Mapping[str, Any] = field(default_factory=dict, hash=False)
    ack_unmatched: bool = False
    cooldown: int = 0
    keep_payload: bool = False
    on_filter_error: OnFilterError = OnFilterError.REQUEUE

    @property
    def consumer_key(self) -> ConsumerKey:
        """The consumer that serves this subscription."""
        return ConsumerKey(self.id, self.key.queue_name, self.key.conn_id)

    def __str__(self) -> str:
        """The subject of a log line."""
        return f"subscription {self.id} ({self.key})"


@dataclass(frozen=True, slots=True)
class FireConsumer:
    """The consumer of the fire queue: it serves the cooldown windows of all DAGs and belongs to no subscription."""

    conn_id: str
    queue_name: str

    @property
    def consumer_key(self) -> ConsumerKey:
        """What identifies it among the consumers."""
        return ConsumerKey(None, self.queue_name, self.conn_id)

    def __str__(self) -> str:
        """The subject of a log line."""
        return f"fire consumer ({self.queue_name}, {self.conn_id})"


#: What a consumer may serve.
Consumed = Subscription | FireConsumer
