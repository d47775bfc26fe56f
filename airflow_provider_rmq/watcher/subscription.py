"""What a subscription is: "messages of this queue start this DAG". Values only; `rows` stores them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Source(str, Enum):
    """Who owns a subscription; the values are stored."""

    DAG_FILE = "dag_file"
    UI = "ui"


class SubscriptionKey(NamedTuple):
    """The unique key of the subscriptions table."""

    dag_id: str
    queue_name: str
    conn_id: str

    def __str__(self) -> str:
        """As it stands in log lines."""
        return f"{self.queue_name} → {self.dag_id}, {self.conn_id}"


class ConsumerKey(NamedTuple):
    """What identifies one consumer of this process."""

    subscription_id: int
    queue_name: str
    conn_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A subscription as a DAG file declares it, before the database knows it."""

    key: SubscriptionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """An enabled subscription as the database holds it."""

    id: int
    key: SubscriptionKey

    @property
    def consumer_key(self) -> ConsumerKey:
        """The consumer that serves this subscription."""
        return ConsumerKey(self.id, self.key.queue_name, self.key.conn_id)

    def __str__(self) -> str:
        """The subject of a log line."""
        return f"subscription {self.id} ({self.key})"
