"""THE loop: attach to a queue, let a handler decide about each message, settle, attach again after a failure.

Every consumer of the watcher runs it; consumers differ in the source and in the handler they pass. What a handler
wants is a `Disposition`, what happened is told as events (`notify`), so the loop knows neither rows nor DAGs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from airflow_provider_rmq.broker.quarantine import Quarantine
from airflow_provider_rmq.broker.window import DeliveryWindow, wait_until_set
from airflow_provider_rmq.errors import BrokerError, QueueMissing, describe
from airflow_provider_rmq.messages.backoff import Backoff
from airflow_provider_rmq.messages.message import Message
from airflow_provider_rmq.messages.settlement import Settlement

log = logging.getLogger(__name__)

E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)

#: Seconds a pass has to last for the pause before the next one to start over.
STEADY_PASS = 30.0


class Delivery(Protocol):
    """One handing-over of a message; settled once."""

    @property
    def message(self) -> Message:
        """What was delivered."""
        ...

    @property
    def undecodable(self) -> str | None:
        """Why its properties cannot be decoded; such a delivery reaches no handler."""
        ...

    async def settle(self, settlement: Settlement) -> None:
        """Answer the broker."""
        ...


class Attachment(Protocol):
    """A registered consumer, as the loop sees it."""

    tag: str
    since: float

    @property
    def holds_registration(self) -> bool:
        """Whether its channel still holds the consumer tag."""
        ...

    def __aiter__(self) -> Attachment:
        """Iterates its deliveries."""
        ...

    async def __anext__(self) -> Delivery:
        """The next delivery."""
        ...

    async def set_prefetch(self, prefetch: int) -> None:
        """Have the broker hand over so many deliveries before the first is settled; changes the tag."""
        ...

    def finish(self) -> None:
        """End the iteration in order."""
        ...

    def abort(self, error: BrokerError) -> None:
        """End the iteration with an error."""
        ...


class Source(Protocol):
    """Where deliveries come from."""

    def attach(self) -> AbstractAsyncContextManager[Attachment]:
        """Register a consumer for the length of the context."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Disposition(Generic[E]):
    """What a handler wants done with a message.

    Args:
        settlement: The answer for the broker.
        event: Told after settling.
        pause: Seconds before the next delivery is taken.
        hold: Seconds this delivery is kept before it is settled; the others go on meanwhile.
        settled: Called when the broker has its answer.
    """

    settlement: Settlement
    event: E | None = None
    pause: float = 0.0
    hold: float = 0.0
    settled: Callable[[], None] | None = None


class Observer(Protocol[E_contra]):
    """Is told what happens to a consumer; must not block and must not raise."""

    def attaching(self) -> None:
        """A pass begins."""

    def attached(self, tag: str, since: float) -> None:
        """The broker confirmed the consumer."""

    def detached(self, reason: str | None) -> None:
        """The pass has ended."""

    def queue_missing(self, reason: str) -> None:
        """The queue does not exist."""

    def answered(self, event: E_contra) -> None:
        """A delivery was settled, and this is what its handler had to say."""

    def unreadable(self, reason: str | None) -> None:
        """A message that cannot be decoded is held back; None when it is gone."""


Handler = Callable[[Message], Awaitable[Disposition[E]]]


async def consume(
    source: Source,
    handler: Handler[E],
    observer: Observer[E],
    *,
    stop: asyncio.Event,
    window: int,
    pauses: Backoff,
) -> None:
    """Consume until told to stop; deliveries in the works are finished first.

    Args:
        source: The queue.
        handler: Decides about one message; its own failures are its own business.
        observer: Told what happens.
        stop: Ends the loop.
        window: Deliveries that are answered at the same time.
        pauses: Between a pass that failed and the next.
    """
    quarantine = Quarantine(observer.unreadable)
    while not stop.is_set():
        observer.attaching()
        begun = asyncio.get_running_loop().time()
        try:
            async with source.attach() as attachment:
                observer.attached(attachment.tag, attachment.since)
                await _answer_all(attachment, handler, observer, stop, window, quarantine)
            observer.detached(None)
        except QueueMissing as error:
            observer.queue_missing(describe(error))
        except BrokerError as error:
            observer.detached(describe(error))
        except Exception as error:
            log.exception("a consumer failed unexpectedly and attaches again")
            observer.detached(describe(error))
        if asyncio.get_running_loop().time() - begun >= STEADY_PASS:
            pauses.reset()
        await wait_until_set(stop, pauses.next())


async def _answer_all(
    attachment: Attachment,
    handler: Handler[E],
    observer: Observer[E],
    stop: asyncio.Event,
    size: int,
    quarantine: Quarantine,
) -> None:
    async def widen(prefetch: int) -> None:
        await attachment.set_prefetch(prefetch)
        observer.attached(attachment.tag, attachment.since)

    window = DeliveryWindow(size, widen)
    stopper = asyncio.ensure_future(stop.wait())
    stopper.add_done_callback(lambda _: attachment.finish())
    beside = [
        asyncio.ensure_future(_ends_pass(window.return_held, attachment)),
        asyncio.ensure_future(_ends_pass(quarantine.run, attachment)),
    ]
    await asyncio.sleep(0)  # both have begun before the first delivery is taken
    try:
        async for delivery in attachment:
            if delivery.undecodable is not None:
                quarantine.take(delivery)
                await window.make_room(quarantine.size)
                continue
            await window.intake_open(stop)
            if stop.is_set():
                break  # the delivery at hand goes back with the channel
            await window.start(_answer(delivery, handler, observer, window, attachment))
    finally:
        stopper.cancel()
        for task in beside:
            task.cancel()
        await window.finish()


async def _ends_pass(work: Callable[[], Awaitable[None]], attachment: Attachment) -> None:
    """Give messages back beside the pass; a failure to do so ends it."""
    try:
        await work()
    except BrokerError as error:
        attachment.abort(error)
    except Exception as error:
        log.exception("returning messages to a queue failed unexpectedly")
        attachment.abort(BrokerError(f"returning messages failed: {describe(error)}"))


async def _answer(
    delivery: Delivery, handler: Handler[E], observer: Observer[E], window: DeliveryWindow, attachment: Attachment
) -> None:
    """Decide → close the intake → settle → tell: what is requeued comes back at once and must find it closed."""
    try:
        disposition = await handler(delivery.message)
        if disposition.hold > 0:
            window.hold(partial(_settle, delivery, disposition, observer), disposition.hold)
            return
        window.pause(disposition.pause)
        await _settle(delivery, disposition, observer)
    except BrokerError as error:
        attachment.abort(error)
    except Exception as error:
        log.exception("a handler failed unexpectedly; its message goes back to the queue")
        attachment.abort(BrokerError(f"the handler failed: {describe(error)}"))


async def _settle(delivery: Delivery, disposition: Disposition[E], observer: Observer[E]) -> None:
    await delivery.settle(disposition.settlement)
    if disposition.settled is not None:
        disposition.settled()
    if disposition.event is not None:
        observer.answered(disposition.event)
