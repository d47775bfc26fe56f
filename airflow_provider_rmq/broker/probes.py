"""Asking a broker whether our consumers are still there; what an answer means is `watcher.service.liveness`' part.

Two ways. The management API lists every consumer. Without it a passive declare on a channel of its own, on the
connection the consumers use, tells whether that connection still answers. Neither opens a connection.
"""

from __future__ import annotations

import asyncio

from aio_pika.exceptions import AMQPError, ChannelClosed
from aiormq.exceptions import ChannelInvalidStateError

from airflow_provider_rmq.broker.attachment import close_channel
from airflow_provider_rmq.broker.deadlines import call_with_timeout
from airflow_provider_rmq.broker.pool import ConnectionPool, Role, is_usable
from airflow_provider_rmq.errors import ConnectionLost, describe


async def require_answer(pool: ConnectionPool, conn_id: str, queue_name: str | None = None) -> None:
    """Return when the consuming connection of a conn_id answers; a refusal is an answer, too.

    Args:
        pool: Where the connection is.
        conn_id: The Airflow connection.
        queue_name: Asked about with a passive declare; None only opens a channel.

    Raises:
        ConnectionLost: There is no open connection, or no answer within its `rpc_timeout`.
    """
    connection = pool.current(conn_id, Role.CONSUME)
    if connection is None:
        raise ConnectionLost(pool.connect_failure(conn_id) or f"{conn_id}: there is no open connection")
    bound = connection.settings.rpc_timeout
    channel = connection.amqp.channel(publisher_confirms=False)
    try:
        await call_with_timeout(channel.initialize(), bound)
        if queue_name is not None:
            await call_with_timeout(channel.declare_queue(queue_name, passive=True), bound)
    except ChannelClosed as error:
        # The broker refused, so it answered; a missing queue is its consumer's own trouble.
        if not is_usable(connection.amqp):
            raise ConnectionLost(f"{conn_id}: {describe(error)}") from error
    except asyncio.TimeoutError as error:
        raise ConnectionLost(f"{conn_id}: no answer within {bound:g} s") from error
    except (AMQPError, ChannelInvalidStateError, OSError, RuntimeError) as error:
        raise ConnectionLost(f"{conn_id}: {describe(error)}") from error
    finally:
        await close_channel(channel)
