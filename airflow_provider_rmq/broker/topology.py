"""Names and properties of the provider's own broker objects, as values. Imports no client library.

`declaring` carries them out. The arguments are fixed by what the releases before this one declared: a broker refuses
to declare an existing object with other ones. No queue type is sent, so it is the vhost's default.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_rmq.broker.names import MAX_NAME_BYTES
from airflow_provider_rmq.errors import ConfigurationError

#: Prefix of every broker object that is the provider's own.
OWN_PREFIX = "rmq_watcher."
#: Exchange and queue in which the markers of ended cooldown windows arrive.
FIRE = "rmq_watcher.fire"
PENDING_PREFIX = "rmq_watcher.pending."
SUB_PREFIX = "rmq_watcher.sub."
#: Milliseconds a message stays in a queue that fills without being asked to: eight hours.
UNREAD_TTL = 28_800_000
#: Characters of a subscription's queue name, which its row has to hold.
MAX_QUEUE_CHARACTERS = 250
#: Hex digits of the digest in a shortened name.
_DIGEST_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Exchange:
    """A durable exchange."""

    name: str
    kind: str
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Queue:
    """A durable queue."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Binding:
    """Messages of an exchange with this key reach the queue; the provider makes none with arguments."""

    exchange: str
    routing_key: str
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Topology:
    """What belongs together, in the order in which it is declared."""

    exchanges: tuple[Exchange, ...] = ()
    queues: tuple[Queue, ...] = ()
    bindings: tuple[tuple[str, Binding], ...] = ()


def pending_queue_name(dag_id: str) -> str:
    """The queue that holds the marker of a DAG's open cooldown window."""
    return _fitting(PENDING_PREFIX + dag_id, MAX_NAME_BYTES)


def sub_queue_name(dag_id: str) -> str:
    """The queue of a DAG in exchange mode."""
    return _fitting(SUB_PREFIX + dag_id, MAX_QUEUE_CHARACTERS)


def fire_topology() -> Topology:
    """Where all cooldown windows end."""
    return Topology(exchanges=(Exchange(FIRE, "topic"),), queues=(Queue(FIRE),), bindings=((FIRE, Binding(FIRE, "#")),))


def pending_topology(dag_id: str) -> Topology:
    """Where the cooldown window of a DAG runs: room for one marker, which leaves for the fire exchange.

    Raises:
        ConfigurationError: The DAG id cannot be a routing key.
    """
    check_cooldown_dag_id(dag_id)
    arguments = {
        "x-dead-letter-exchange": FIRE,
        "x-dead-letter-routing-key": dag_id,
        "x-max-length": 1,
        "x-overflow": "reject-publish",
    }
    return Topology(queues=(Queue(pending_queue_name(dag_id), arguments),))


def sub_queue_topology(dag_id: str) -> Topology:
    """The queue of a DAG in exchange mode; what is bound to it is `bindings`' part."""
    return Topology(queues=(Queue(sub_queue_name(dag_id), {"x-message-ttl": UNREAD_TTL}),))


def exchange_topology(exchange: str, *, mirror: bool) -> Topology:
    """A topic exchange with its safety nets: one for what nobody wants, and with `mirror` one for everything.

    A mirror that exists already is left alone where none is wanted: other deployments may read it.
    """
    unrouted, log = f"{exchange}.unrouted", f"{exchange}.log"
    queues = [Queue(unrouted, {"x-message-ttl": UNREAD_TTL})]
    bindings = [(unrouted, Binding(unrouted, unrouted))]
    if mirror:
        queues.append(Queue(log, {"x-message-ttl": UNREAD_TTL}))
        bindings.append((log, Binding(exchange, "#")))
    return Topology(
        exchanges=(Exchange(exchange, "topic", {"alternate-exchange": unrouted}), Exchange(unrouted, "fanout")),
        queues=tuple(queues),
        bindings=tuple(bindings),
    )


def check_exchange_name(exchange: str) -> None:
    """Refuse a name that leaves no room for the names of the safety nets.

    Raises:
        ConfigurationError: It does.
    """
    length = len(f"{exchange}.unrouted".encode("utf-8", errors="replace"))
    if length > MAX_NAME_BYTES:
        raise ConfigurationError(
            f"exchange: {exchange[:60]!r}… with .unrouted is {length} bytes of UTF-8, AMQP allows {MAX_NAME_BYTES}"
        )


def check_cooldown_dag_id(dag_id: str) -> None:
    """Refuse a DAG id that cannot travel as the routing key of a marker.

    Raises:
        ConfigurationError: It is too long.
    """
    length = len(dag_id.encode("utf-8", errors="replace"))
    if length > MAX_NAME_BYTES:
        raise ConfigurationError(
            f"cooldown: the dag_id is {length} bytes of UTF-8 and has to travel as a routing key, "
            f"for which AMQP allows {MAX_NAME_BYTES}: {dag_id[:60]!r}…"
        )


def _fitting(name: str, characters: int) -> str:
    """The name, shortened with a digest of the whole where a broker or a row cannot hold it."""
    raw = name.encode("utf-8", errors="replace")
    if len(raw) <= MAX_NAME_BYTES and len(name) <= characters:
        return name
    digest = hashlib.sha256(raw).hexdigest()[:_DIGEST_LENGTH]
    kept = raw[: characters - _DIGEST_LENGTH - 1].decode("utf-8", errors="ignore")
    return f"{kept}.{digest}"
