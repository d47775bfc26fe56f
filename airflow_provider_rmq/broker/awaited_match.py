"""Waiting for the first message that matches, on an event loop: by polling or with a consumer.

Both leave the match unsettled and hold its channel open in the caller's `AsyncExitStack`, so that the caller answers
for it when it has handed it on. What does not match is held back for a growing pause before it returns to the queue:
returned at once it would come again at once, ten times a second, and spend a quorum queue's delivery limit in seconds.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from airflow_provider_rmq.broker.attachment import QueueDelivery, QueueSource
from airflow_provider_rmq.broker.polling import poll_queue
from airflow_provider_rmq.broker.pool import ConnectionPool
from airflow_provider_rmq.broker.queue_facts import warn_of_limit
from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.errors import BrokerError, QueueMissing, UndecodableMessage, describe
from airflow_provider_rmq.messages.backoff import Backoff
from airflow_provider_rmq.messages.judge import Judgement, MessageJudge
from airflow_provider_rmq.messages.settlement import FilterVerdict, Settlement

logger = logging.getLogger("airflow.task")

#: Messages looked at in one poll, and held by a consumer.
WINDOW = 100
#: Seconds before rejected messages go back; doubled while nothing matches.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
#: Attempts to get a first connection, a second or two apart; a wrong password shows here.
FIRST_ATTEMPTS = 3
#: Seconds without the broker, once it was there, after which waiting is given up.
LONGEST_ABSENCE = 600.0


@dataclass(slots=True)
class _Held:
    """Messages that did not match and wait to go back."""

    judge: MessageJudge
    deliveries: list[tuple[QueueDelivery, Judgement]] = field(default_factory=list)

    async def decide(self, delivery: QueueDelivery) -> bool:
        """Judge one message; a match is left to the caller.

        Raises:
            UndecodableMessage: It cannot be judged; it goes back with its channel.
        """
        if delivery.undecodable is not None:
            queue_name = delivery.message.queue
            raise UndecodableMessage(
                f"queue {queue_name!r}: the header cannot be decoded, the message stays: {delivery.undecodable}"
            )
        judgement = self.judge.judge(delivery.message)
        if judgement.verdict is FilterVerdict.MATCH:
            return True
        if judgement.settlement is Settlement.REQUEUE:
            self.deliveries.append((delivery, judgement))
        else:
            await delivery.settle(judgement.settlement)
            self.judge.settled(judgement)
        return False

    async def release(self) -> None:
        """Return them to the queue."""
        held, self.deliveries = self.deliveries, []
        for delivery, judgement in held:
            await delivery.settle(judgement.settlement)
            self.judge.settled(judgement)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchWait:
    """One wait for one message."""

    pool: ConnectionPool
    conn_id: str
    queue_name: str
    judge: MessageJudge

    async def by_polling(self, open_until_settled: AsyncExitStack, poll_interval: float) -> QueueDelivery:
        """Look at the head of the queue every `poll_interval` seconds."""
        absence = _Absence()
        while True:
            try:
                found = await self._poll_once(open_until_settled)
                absence.ended()
                if found is not None:
                    return found
                pause = poll_interval
            except QueueMissing as error:
                pause = absence.without_queue(error, poll_interval)
            except BrokerError as error:
                pause = absence.next_pause(error)
            await asyncio.sleep(pause)

    async def by_consuming(self, open_until_settled: AsyncExitStack) -> QueueDelivery:
        """Have the broker deliver each message as it comes."""
        absence = _Absence()
        while True:
            try:
                return await self._consume_once(open_until_settled, absence)
            except QueueMissing as error:
                pause = absence.without_queue(error, FIRST_PAUSE)
            except BrokerError as error:
                pause = absence.next_pause(error)
            await asyncio.sleep(pause)

    async def _settings(self) -> ConnectionSettings:
        return (await self.pool.connection(self.conn_id)).settings

    async def _poll_once(self, open_until_settled: AsyncExitStack) -> QueueDelivery | None:
        async with AsyncExitStack() as stack:
            poll = await stack.enter_async_context(poll_queue(self.pool, self.conn_id, self.queue_name))
            held = _Held(self.judge)
            found: QueueDelivery | None = None
            for _ in range(WINDOW):
                delivery = await poll.get()
                if delivery is None:
                    break
                if await held.decide(delivery):
                    found = delivery
                    break
            if held.deliveries:
                await warn_of_limit(await self._settings(), self.queue_name)
            await held.release()
            if found is not None:
                open_until_settled.push_async_exit(stack.pop_all())
            return found

    async def _consume_once(self, open_until_settled: AsyncExitStack, absence: _Absence) -> QueueDelivery:
        # One delivery at a time: what is handed over and never looked at would go back, and count as a delivery.
        source = QueueSource(self.pool, self.conn_id, self.queue_name, "rmq_trigger", 1)
        async with AsyncExitStack() as stack:
            attachment = await stack.enter_async_context(source.attach())
            absence.ended()
            held, pauses = _Held(self.judge), Backoff(FIRST_PAUSE, LONGEST_PAUSE)
            loop = asyncio.get_running_loop()
            release_at: float | None = None
            while True:
                arriving = asyncio.ensure_future(attachment.__anext__())
                try:
                    while not arriving.done():
                        left = None if release_at is None else max(release_at - loop.time(), 0.0)
                        await asyncio.wait({arriving}, timeout=left)
                        if not arriving.done():
                            release_at = None
                            await warn_of_limit(await self._settings(), self.queue_name)
                            await held.release()
                finally:
                    arriving.cancel()
                delivery = arriving.result()
                if await held.decide(delivery):
                    await attachment.stop()  # first, or what goes back would come again
                    await held.release()
                    open_until_settled.push_async_exit(stack.pop_all())
                    return delivery
                if not held.deliveries:
                    continue
                if release_at is None:
                    release_at = loop.time() + pauses.next()
                if held.deliveries[-1][0] is delivery and len(held.deliveries) < WINDOW:
                    await attachment.set_prefetch(1)  # a new consumer, which the held delivery does not count for


class _Absence:
    """How long the broker has been away, and when that is too long."""

    def __init__(self) -> None:
        self._was_there = False
        self._failures = 0
        self._since: float | None = None
        self._pauses = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._reported_missing = False

    def ended(self) -> None:
        """The broker answered."""
        self._was_there = True
        self._failures = 0
        self._since = None
        self._pauses.reset()

    def without_queue(self, error: QueueMissing, pause: float) -> float:
        """A queue that does not exist has no message yet; seconds until the next look."""
        self.ended()
        if not self._reported_missing:
            logger.info("No message yet: %s", describe(error))
            self._reported_missing = True
        return pause

    def next_pause(self, error: BrokerError) -> float:
        """Seconds until the next attempt.

        Raises:
            BrokerError: The same, when waiting longer is pointless.
        """
        now = asyncio.get_running_loop().time()
        self._failures += 1
        self._since = now if self._since is None else self._since
        # A stream queue refuses to be polled, and a header stays as unreadable as it is, at every attempt.
        is_hopeless = isinstance(error, UndecodableMessage) or "NOT_IMPLEMENTED" in str(error)
        gone_too_long = now - self._since > LONGEST_ABSENCE
        never_came = not self._was_there and self._failures >= FIRST_ATTEMPTS
        if is_hopeless or gone_too_long or never_came:
            raise error
        if self._failures == 1:
            logger.warning("Waiting goes on without the broker: %s", describe(error))
        return self._pauses.next()
