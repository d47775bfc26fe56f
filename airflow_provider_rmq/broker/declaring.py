"""Declares and binds what `topology` describes, and changes bindings; on the consuming connection of a conn_id.

A refusal closes its channel and costs nobody else anything: every topology gets a channel of its own. What a refusal
means is read by `refusals`; a `TopologyConflict` names the argument with both values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import AMQPError, ChannelClosed
from aiormq.exceptions import ChannelInvalidStateError

from airflow_provider_rmq.broker.attachment import close_channel
from airflow_provider_rmq.broker.deadlines import call_with_timeout
from airflow_provider_rmq.broker.pool import ConnectionPool
from airflow_provider_rmq.broker.refusals import Operation, refusal
from airflow_provider_rmq.broker.topology import Binding, Topology
from airflow_provider_rmq.errors import ConnectionLost, describe

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Declarer:
    """Makes broker objects be there; one attempt a call."""

    pool: ConnectionPool

    async def declare(self, conn_id: str, topology: Topology) -> None:
        """Declare in order: exchanges, queues, bindings.

        Raises:
            TopologyConflict: An object exists with other properties.
            BrokerError: The broker or the link refused, as one of its leaves.
        """
        async with _Channel(self.pool, conn_id) as channel:
            for exchange in topology.exchanges:
                await channel.call(
                    Operation(what=f"declare exchange {exchange.name}"),
                    channel.amqp.declare_exchange(
                        exchange.name, exchange.kind, durable=True, arguments=dict(exchange.arguments) or None
                    ),
                )
            for queue in topology.queues:
                await channel.call(
                    Operation(what=f"declare queue {queue.name}", exchange_permission="write"),
                    channel.amqp.declare_queue(queue.name, durable=True, arguments=dict(queue.arguments) or None),
                )
            for queue_name, binding in topology.bindings:
                await channel.bind(queue_name, binding)

    async def rebind(self, conn_id: str, queue_name: str, bind: Iterable[Binding], unbind: Iterable[Binding]) -> None:
        """Change the bindings of a queue; what is wanted comes before what is not, so that no message falls between.

        Raises:
            BrokerError: The broker or the link refused, as one of its leaves.
        """
        async with _Channel(self.pool, conn_id) as channel:
            for binding in bind:
                await channel.bind(queue_name, binding)
            for binding in unbind:
                await channel.unbind(queue_name, binding)


class _Channel:
    """A channel for the length of a context, whose calls are bounded and whose refusals are ours."""

    amqp: AbstractChannel

    def __init__(self, pool: ConnectionPool, conn_id: str) -> None:
        self._pool = pool
        self._conn_id = conn_id
        self._bound = 0.0

    async def __aenter__(self) -> _Channel:
        connection = await self._pool.connection(self._conn_id)
        self._bound = connection.settings.rpc_timeout
        self.amqp = connection.amqp.channel(publisher_confirms=False)
        await self.call(Operation(what="open a channel"), self.amqp.initialize())
        return self

    async def __aexit__(self, *_: object) -> None:
        await close_channel(self.amqp)

    async def bind(self, queue_name: str, binding: Binding) -> None:
        queue = await self.amqp.get_queue(queue_name, ensure=False)
        await self.call(
            _binding_operation(f"bind queue {queue_name} to exchange {binding.exchange}"),
            queue.bind(binding.exchange, binding.routing_key),
        )

    async def unbind(self, queue_name: str, binding: Binding) -> None:
        queue = await self.amqp.get_queue(queue_name, ensure=False)
        await self.call(
            _binding_operation(f"unbind queue {queue_name} from exchange {binding.exchange}"),
            queue.unbind(binding.exchange, binding.routing_key),
        )

    async def call(self, operation: Operation, awaitable: Awaitable[T]) -> T:
        what = f"{self._conn_id}: {operation.what}"
        try:
            return await call_with_timeout(awaitable, self._bound)
        except asyncio.TimeoutError as error:
            raise ConnectionLost(f"{what}: the broker gave no answer within {self._bound:g} s") from error
        except (AMQPError, ChannelClosed, ChannelInvalidStateError, OSError, RuntimeError) as error:
            told = refusal(error, replace(operation, what=what))
            raise (told or ConnectionLost(f"{what}: {describe(error)}")) from error


def _binding_operation(what: str) -> Operation:
    return Operation(what=what, queue_permission="write", exchange_permission="read")
