"""`RMQTrigger`: waits for a message in the triggerer and hands it over without losing it on the way.

The message is acknowledged when Airflow has stored the event, not when the event is made: the triggerer keeps events
in memory for up to a second, and a triggerer that dies, or a second one that runs the same trigger, must not have
acknowledged a message nobody gets. Until then the message is unacknowledged and goes back to the queue by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import cache, partial
from typing import Any, TypeVar
from uuid import uuid4

from airflow_provider_rmq.broker.attachment import QueueDelivery
from airflow_provider_rmq.broker.awaited_match import MatchWait
from airflow_provider_rmq.broker.pool import ConnectionPool
from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.compat import (
    BaseTrigger,
    HandOver,
    TriggerEvent,
    airflow_connection,
    hand_over_of,
    is_dag_gone,
)
from airflow_provider_rmq.errors import BrokerError, ConfigurationError, describe
from airflow_provider_rmq.messages.backoff import Backoff
from airflow_provider_rmq.messages.filters import MessageFilter
from airflow_provider_rmq.messages.judge import MessageJudge, check_ack_unmatched
from airflow_provider_rmq.messages.misses import FilterMissState
from airflow_provider_rmq.messages.settlement import Settlement

logger = logging.getLogger("airflow.task")

T = TypeVar("T")

MODES = ("pull", "push")
#: Key of the event that tells ours from that of another triggerer running the same trigger.
HAND_OVER_KEY = "hand_over"
#: Seconds an event may take to be stored.
HAND_OVER_LIMIT = 10.0
#: Seconds before the first look whether it is, and at most between two; the triggerer's own turn takes one.
FIRST_LOOK, LONGEST_LOOK = 0.25, 1.0
#: Seconds between two looks at the queue of a sensor whose DAG is deleted; each look is one delivery of the message.
DAG_GONE_PAUSE = 60.0


class RMQTrigger(BaseTrigger):
    """Wait for a message the filter accepts.

    Args:
        rmq_conn_id: The Airflow connection.
        queue_name: The queue; it may be declared later.
        filter_data: `MessageFilter.serialize()`; None accepts every message.
        poll_interval: Seconds between two looks in pull mode.
        mode: `pull` looks at the queue now and then, `push` has the broker deliver at once.
        message_wait_timeout: Seconds to wait in push mode.
        ack_unmatched: Acknowledge what the filter rejects.
    """

    def __init__(
        self,
        rmq_conn_id: str,
        queue_name: str,
        filter_data: Mapping[str, Any] | None = None,
        poll_interval: float = 5.0,
        mode: str = "pull",
        message_wait_timeout: float | None = None,
        ack_unmatched: bool = False,
    ) -> None:
        super().__init__()
        if mode not in MODES:
            raise ConfigurationError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
        self.rmq_conn_id = rmq_conn_id
        self.queue_name = queue_name
        self.filter_data = dict(filter_data or {})
        self.poll_interval = poll_interval
        self.mode = mode
        self.message_wait_timeout = message_wait_timeout
        self.ack_unmatched = check_ack_unmatched(ack_unmatched)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The path and arguments that Airflow stores; tasks deferred by earlier releases name the same."""
        return (
            "airflow_provider_rmq.triggers.rmq.RMQTrigger",
            {
                "rmq_conn_id": self.rmq_conn_id,
                "queue_name": self.queue_name,
                "filter_data": self.filter_data,
                "poll_interval": self.poll_interval,
                "mode": self.mode,
                "message_wait_timeout": self.message_wait_timeout,
                "ack_unmatched": self.ack_unmatched,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: the message, a time-out, or an error; never raises."""
        pool = ConnectionPool(_settings, "airflow trigger")
        try:
            async with AsyncExitStack() as open_until_settled:
                try:
                    delivery = await self._wait_for_task(pool, open_until_settled)
                    event = None if delivery is None else {"status": "success", "message": delivery.message.as_xcom()}
                except Exception as error:
                    expected = isinstance(error, (BrokerError, ConfigurationError))
                    logger.warning(
                        "Waiting for queue %s ended: %s", self.queue_name, describe(error), exc_info=not expected
                    )
                    yield TriggerEvent({"status": "error", "error": describe(error)})
                    return
                if delivery is None or event is None:
                    yield TriggerEvent({"status": "timeout"})
                    return
                token = uuid4().hex
                hand_over = HandOver.PENDING
                try:
                    yield TriggerEvent({**event, HAND_OVER_KEY: token})
                    hand_over = await self._stored(token)
                except (asyncio.CancelledError, GeneratorExit):
                    hand_over = await self._look(token)
                    raise
                finally:
                    await self._answer(delivery, hand_over)
        finally:
            await pool.close()

    async def _wait_for_task(self, pool: ConnectionPool, open_until_settled: AsyncExitStack) -> QueueDelivery | None:
        """Wait for a message; one that comes while the DAG is deleted goes back, for nobody would get it."""
        loop = asyncio.get_running_loop()
        end = None if self.message_wait_timeout is None else loop.time() + self.message_wait_timeout
        is_reported = False
        while True:
            left = None if end is None else max(end - loop.time(), 0.0)
            delivery = await self._wait(pool, open_until_settled, left)
            if delivery is None or not await self._look_for_dag():
                return delivery
            await open_until_settled.aclose()
            if not is_reported:
                logger.warning("A message of queue %s goes back: the DAG of its sensor is deleted", self.queue_name)
                is_reported = True
            left = None if end is None else max(end - loop.time(), 0.0)
            await asyncio.sleep(DAG_GONE_PAUSE if left is None else min(DAG_GONE_PAUSE, left))

    async def _look_for_dag(self) -> bool:
        """Whether the DAG is gone; without the database nobody knows, and the event is stored or not later on."""
        try:
            return await _in_turn(is_dag_gone, self)
        except Exception as error:  # noqa: BLE001 - as in `_look`
            logger.warning("Whether the DAG of queue %s exists is not known: %s", self.queue_name, describe(error))
            return False

    async def _wait(
        self, pool: ConnectionPool, open_until_settled: AsyncExitStack, seconds: float | None
    ) -> QueueDelivery | None:
        misses = FilterMissState(self.queue_name, logger, self.ack_unmatched)
        judge = MessageJudge(message_filter=MessageFilter.deserialize(self.filter_data), misses=misses)
        wait = MatchWait(pool=pool, conn_id=self.rmq_conn_id, queue_name=self.queue_name, judge=judge)
        if self.mode == "pull":
            return await wait.by_polling(open_until_settled, self.poll_interval)
        waiting = asyncio.ensure_future(wait.by_consuming(open_until_settled))
        try:
            done, _ = await asyncio.wait({waiting}, timeout=seconds)
        finally:
            if not waiting.done():
                waiting.cancel()
                await asyncio.wait({waiting}, timeout=5)  # it closes its channel, which returns what it holds
        return waiting.result() if done else None

    async def _stored(self, token: str) -> HandOver:
        """Wait until Airflow has taken the event or given it up."""
        deadline = asyncio.get_running_loop().time() + HAND_OVER_LIMIT
        pauses = Backoff(FIRST_LOOK, LONGEST_LOOK)
        while True:
            await asyncio.sleep(pauses.next())
            hand_over = await self._look(token)
            if hand_over is not HandOver.PENDING or asyncio.get_running_loop().time() > deadline:
                return hand_over

    async def _look(self, token: str) -> HandOver:
        try:
            return await _in_turn(hand_over_of, self, HAND_OVER_KEY, token)
        except Exception as error:  # noqa: BLE001 - without the database nobody knows; the message then comes again
            logger.warning("Whether the event of queue %s is stored is not known: %s", self.queue_name, describe(error))
            return HandOver.PENDING

    async def _answer(self, delivery: QueueDelivery, hand_over: HandOver) -> None:
        """Acknowledge what was stored, or may be for all this version tells; the rest goes back to its queue."""
        if hand_over not in {HandOver.STORED, HandOver.UNKNOWN}:
            logger.warning("A message of queue %s goes back: its event is %s", self.queue_name, hand_over.value)
            return
        try:
            await delivery.settle(Settlement.ACK)
        except BrokerError as error:
            logger.warning("A message of queue %s may come again: %s", self.queue_name, describe(error))


@cache
def _one_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "rmq-trigger")


async def _in_turn(look: Callable[..., T], *arguments: object) -> T:
    """Ask the database in a thread, one question at a time.

    Fifty triggers that match at once would ask with as many threads as the loop has, and these together keep the
    interpreter from the loop: 0.3 s, which the triggerer complains of (seen on 2.11.2 with two cores).
    """
    return await asyncio.get_running_loop().run_in_executor(_one_thread(), partial(look, *arguments))


async def _settings(conn_id: str) -> ConnectionSettings:
    """Looked up in a thread: a secrets backend may take seconds, and the triggerer has one loop for all triggers."""
    return ConnectionSettings.from_record(await asyncio.to_thread(airflow_connection, conn_id))
