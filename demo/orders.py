"""The demo's side of the queue: declare it, publish one order, tidy up. `brokers` found the broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pika
import pika.exceptions

from demo.console import DemoError

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

    from demo.brokers import Broker

QUEUE = "orders"


@dataclass(frozen=True)
class Order:
    """What was published, and when."""

    message_id: str
    published_at: datetime

    @property
    def run_id(self) -> str:
        """The id the watcher gives the DAG run of this message."""
        return f"rmq__{QUEUE}__{self.message_id}"


def declare_queue(broker: Broker) -> bool:
    """Make the queue, durable; False when it was there before.

    Raises:
        DemoError: the broker refuses, in one sentence.
    """
    with _connected(broker) as connection:
        try:
            connection.channel().queue_declare(QUEUE, passive=True)
        except pika.exceptions.ChannelClosedByBroker:
            connection.channel().queue_declare(QUEUE, durable=True)
            return True
    return False


def delete_queue(broker: Broker) -> None:
    """Remove the queue again, from a broker that outlives the demo."""
    with _connected(broker) as connection:
        connection.channel().queue_delete(QUEUE)


def publish_order(broker: Broker) -> Order:
    """Publish one order and return once the broker has confirmed that it is in the queue."""
    body = {"order_id": 1001, "item": "coffee beans", "quantity": 3}
    message_id = f"order-1001-{uuid.uuid4().hex[:8]}"
    properties = pika.BasicProperties(message_id=message_id, content_type="application/json", delivery_mode=2)
    with _connected(broker) as connection:
        channel: BlockingChannel = connection.channel()
        channel.confirm_delivery()
        published_at = datetime.now(timezone.utc)
        try:
            channel.basic_publish("", QUEUE, json.dumps(body).encode(), properties, mandatory=True)
        except (pika.exceptions.UnroutableError, pika.exceptions.NackError) as error:
            raise DemoError(f"the broker did not take the order: {type(error).__name__}") from error
    return Order(message_id, published_at)


@contextmanager
def _connected(broker: Broker) -> Iterator[pika.BlockingConnection]:
    parameters = pika.URLParameters(broker.url)
    parameters.blocked_connection_timeout = 30
    parameters.socket_timeout = 10
    try:
        connection = pika.BlockingConnection(parameters)
    except (pika.exceptions.ProbableAuthenticationError, pika.exceptions.AuthenticationError):
        raise DemoError(f"the broker at {broker.place} refuses the user or password") from None
    except pika.exceptions.ProbableAccessDeniedError:
        raise DemoError(f"the broker at {broker.place} refuses access to that vhost") from None
    except (pika.exceptions.AMQPConnectionError, OSError) as error:
        raise DemoError(f"no broker at {broker.place}: {_reason(error)}") from None
    try:
        yield connection
    except (pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker) as error:
        raise DemoError(f"the broker at {broker.place} refused: {error.reply_text}") from None
    except pika.exceptions.ConnectionBlockedTimeout:
        raise DemoError(f"the broker at {broker.place} takes no messages now (memory or disk alarm)") from None
    except pika.exceptions.AMQPError as error:
        raise DemoError(f"the connection to {broker.place} broke: {_reason(error)}") from None
    finally:
        if connection.is_open:
            connection.close()


def _reason(error: BaseException) -> str:
    """Find words in an error; pika's often hide them in the error inside."""
    inside = [getattr(one, "exception", one) for one in (*error.args, error.__cause__)]
    told = [one for one in inside if isinstance(one, BaseException) and str(one)]
    return str(told[0] if told else error) or type(error).__name__
