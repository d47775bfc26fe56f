"""Stable import path of the AMQP helpers; the rules live in `broker.settings`, `broker.deadlines` and `messages`.

`match`, `match_and_ack`, `handle_miss` and `nack_and_sleep` are for code outside this package that consumes with
aio-pika itself; the package's own loops settle through `broker`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from airflow_provider_rmq.broker.deadlines import call_with_timeout
from airflow_provider_rmq.broker.settings import (
    AMQP_PORT,
    AMQPS_PORT,
    DEFAULT_CONNECT_TIMEOUT,
    DEFAULT_HEARTBEAT,
    DEFAULT_RPC_TIMEOUT,
    AMQPTimeouts,
    build_amqp_connection,
    get_amqp_timeouts,
)
from airflow_provider_rmq.messages.filters import FilterVerdict, MessageFilter
from airflow_provider_rmq.messages.misses import FilterMissState
from airflow_provider_rmq.messages.settlement import Settlement, settlement_for

__all__ = [
    "AMQPS_PORT",
    "AMQP_PORT",
    "DEFAULT_CONNECT_TIMEOUT",
    "DEFAULT_HEARTBEAT",
    "DEFAULT_RPC_TIMEOUT",
    "AMQPTimeouts",
    "FilterMissState",
    "build_amqp_connection",
    "call_with_timeout",
    "get_amqp_timeouts",
    "handle_miss",
    "match",
    "match_and_ack",
    "nack_and_sleep",
]

#: Seconds between giving a message back and taking the next one, so that a message nobody wants does not spin.
REQUEUE_PAUSE = 0.1


def match(message: Any, message_filter: MessageFilter) -> tuple[FilterVerdict, str | None]:
    """The filter's verdict on an aio-pika message, and the reason of an ERROR."""
    return message_filter.evaluate(message, message.body)


async def match_and_ack(message: Any, message_filter: MessageFilter, state: FilterMissState) -> bool:
    """Acknowledge an aio-pika message that the filter accepts; answer and count any other. Whether it matched."""
    verdict, reason = match(message, message_filter)
    if verdict is FilterVerdict.MATCH:
        await message.ack()
        state.on_match()
        return True
    if verdict is FilterVerdict.MISS:
        await handle_miss(message, state)
        return False
    await nack_and_sleep(message)
    state.on_error(reason)
    return False


async def handle_miss(message: Any, state: FilterMissState) -> None:
    """Answer and count an aio-pika message that the filter rejected."""
    if settlement_for(FilterVerdict.MISS, ack_unmatched=state.ack_unmatched) is Settlement.ACK:
        await message.ack()
    else:
        await nack_and_sleep(message)
    state.on_miss()


async def nack_and_sleep(message: Any) -> None:
    """Give an aio-pika message back to its queue and wait `REQUEUE_PAUSE`."""
    await message.nack(requeue=True)
    await asyncio.sleep(REQUEUE_PAUSE)
