"""One batch of messages from the head of a queue: taken, judged, and answered all at once at its end.

Nothing is acknowledged before the whole batch is judged and its matches are known to be presentable; so a task that is
killed, times out or loses its connection before that leaves the queue as it was. What is not acknowledged goes back by
closing the channel: that also ends the consumer first, so the broker cannot deliver the same messages again at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from airflow_provider_rmq.errors import AlreadySettled
from airflow_provider_rmq.messages.judge import Judgement, MessageJudge
from airflow_provider_rmq.messages.message import Message
from airflow_provider_rmq.messages.settlement import FilterVerdict, Settlement

logger = logging.getLogger("airflow.task")

T = TypeVar("T")


class BlockingDelivery:
    """One handing-over of a message in a batch; can be settled once."""

    __slots__ = ("message", "settlement", "tag")

    def __init__(self, message: Message, tag: int) -> None:
        self.message = message
        self.tag = tag
        self.settlement: Settlement | None = None

    def settle(self, settlement: Settlement) -> None:
        """Fix the answer; the batch sends it when it is committed.

        Raises:
            AlreadySettled: It was settled before.
        """
        if self.settlement is not None:
            raise AlreadySettled(f"delivery {self.tag} of queue {self.message.queue} was settled before")
        self.settlement = settlement


class Batch(Protocol):
    """Deliveries in the order of the queue, and the one call that answers them."""

    def __iter__(self) -> Iterator[BlockingDelivery]:
        """Take the next delivery."""
        ...

    def commit(self) -> None:
        """Send every settlement; what was not settled, or settled with REQUEUE, goes back to the queue."""
        ...


def all_matches(batch: Batch, judge: MessageJudge, shape: Callable[[Message], T]) -> list[T]:
    """Every message of the batch that the filter accepts, in the form of `shape`."""
    found: list[T] = []
    judgements = []
    for delivery in batch:
        judgement = judge.judge(delivery.message)
        if judgement.verdict is FilterVerdict.MATCH:
            found.append(shape(delivery.message))
        delivery.settle(judgement.settlement)
        judgements.append(judgement)
    batch.commit()
    _count(judge, judgements)
    _sum_up(judge, judgements)
    return found


def first_match(batch: Batch, judge: MessageJudge, shape: Callable[[Message], T]) -> T | None:
    """The first message of the batch that the filter accepts; what stands behind it was never looked at."""
    found: T | None = None
    judgements = []
    for delivery in batch:
        judgement = judge.judge(delivery.message)
        if judgement.verdict is FilterVerdict.MATCH:
            found = shape(delivery.message)
        delivery.settle(judgement.settlement)
        judgements.append(judgement)
        if judgement.verdict is FilterVerdict.MATCH:
            break
    batch.commit()
    _count(judge, judgements)
    return found


def _count(judge: MessageJudge, judgements: Iterable[Judgement]) -> None:
    for judgement in judgements:
        judge.settled(judgement)


def _sum_up(judge: MessageJudge, judgements: list[Judgement]) -> None:
    verdicts = [judgement.verdict for judgement in judgements]
    misses = [judgement for judgement in judgements if judgement.verdict is FilterVerdict.MISS]
    judge.misses.on_batch_done(
        matched=verdicts.count(FilterVerdict.MATCH),
        evaluated=len(verdicts) - verdicts.count(FilterVerdict.ERROR),
        dropped_in_batch=sum(judgement.settlement is Settlement.ACK for judgement in misses),
    )
