"""Looking at a queue from an event loop without registering a consumer; `attachment` is the way with one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aio_pika.abc import AbstractChannel, AbstractQueue

from airflow_provider_rmq.broker.attachment import QueueDelivery, answered, close_channel
from airflow_provider_rmq.broker.pool import ConnectionPool


class QueuePoll:
    """Takes messages one by one; leaving the context it comes from returns what is unsettled."""

    def __init__(self, queue: AbstractQueue, rpc_timeout: float) -> None:
        """A queue that was found; `poll_queue` makes these."""
        self._queue = queue
        self._rpc_timeout = rpc_timeout

    async def get(self) -> QueueDelivery | None:
        """The next message, None when there is none.

        Raises:
            BrokerError: The broker or the link refused.
        """
        incoming = await answered(
            self._queue.get(fail=False, timeout=self._rpc_timeout), self._rpc_timeout, self._queue.name
        )
        return None if incoming is None else QueueDelivery(incoming, self._queue.name, self._rpc_timeout)


@asynccontextmanager
async def poll_queue(pool: ConnectionPool, conn_id: str, queue_name: str) -> AsyncIterator[QueuePoll]:
    """A channel of its own on a queue that exists.

    Raises:
        QueueMissing: It does not.
        BrokerError: The broker or the link refused.
    """
    connection = await pool.connection(conn_id)
    bound = connection.settings.rpc_timeout
    channel: AbstractChannel = connection.amqp.channel(publisher_confirms=False)
    try:
        await answered(channel.initialize(), bound, queue_name)
        queue = await answered(channel.get_queue(queue_name, ensure=True), bound, queue_name)
        yield QueuePoll(queue, bound)
    finally:
        await close_channel(channel)
