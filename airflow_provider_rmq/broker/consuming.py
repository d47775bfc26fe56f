"""THE loop: attach to a queue, let a handler decide about each message, settle, attach again after a failure.

Every consumer of the watcher runs it; consumers differ in the source and in the handler they pass. What a handler
wants is a `Disposition`, what happened is told as events (`notify`), so the loop knows neither rows nor DAGs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

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

    async def settle(self, settlement: Settlement) -> None:
        """Answer the broker."""
        ...


class Attachment(Protocol):
    """A registered consumer, as the loop sees it."""

    tag: str
    since: float

    def __aiter__(self) -> Attachment:
        """Iterates its deliveries."""
        ...

    async def __anext__(self) -> Delivery:
        """The next delivery."""
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
    """

    settlement: Settlement
    event: E | None = None
    pause: float = 0.0


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
    while not stop.is_set():
        observer.attaching()
        begun = _now()
        try:
            async with source.attach() as attachment:
                observer.attached(attachment.tag, attachment.since)
                await _answer_all(attachment, handler, observer, stop, window)
            observer.detached(None)
        except QueueMissing as error:
            observer.queue_missing(describe(error))
        except BrokerError as error:
            observer.detached(describe(error))
        except Exception as error:
            log.exception("a consumer failed unexpectedly and attaches again")
            observer.detached(describe(error))
        if _now() - begun >= STEADY_PASS:
            pauses.reset()
        await wait_until_set(stop, pauses.next())


def _now() -> float:
    """The event loop's own clock, so that tests can turn it."""
    return asyncio.get_running_loop().time()


async def wait_until_set(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, at most this long; whether it is set."""
    if seconds > 0 and not event.is_set():
        waiter = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait({waiter}, timeout=seconds)
        finally:
            waiter.cancel()
    return event.is_set()


async def _answer_all(
    attachment: Attachment, handler: Handler[E], observer: Observer[E], stop: asyncio.Event, window: int
) -> None:
    stopper = asyncio.ensure_future(stop.wait())
    stopper.add_done_callback(lambda _: attachment.finish())
    in_flight = _InFlight(window)
    try:
        async for delivery in attachment:
            await in_flight.intake_open(stop)
            if stop.is_set():
                break  # the delivery at hand goes back with the channel
            await in_flight.start(_answer(delivery, handler, observer, in_flight, attachment))
    finally:
        stopper.cancel()
        await in_flight.finish()


async def _answer(
    delivery: Delivery, handler: Handler[E], observer: Observer[E], in_flight: _InFlight, attachment: Attachment
) -> None:
    """Decide → close the intake → settle → tell: what is requeued comes back at once and must find it closed."""
    try:
        disposition = await handler(delivery.message)
        in_flight.pause(disposition.pause)
        await delivery.settle(disposition.settlement)
    except BrokerError as error:
        attachment.abort(error)
        return
    except Exception as error:
        log.exception("a handler failed unexpectedly; its message goes back to the queue")
        attachment.abort(BrokerError(f"the handler failed: {describe(error)}"))
        return
    if disposition.event is not None:
        observer.answered(disposition.event)


@dataclass(slots=True)
class _InFlight:
    """The deliveries being answered, at most `window` of them, and the pause they asked for."""

    window: int
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    paused_until: float = 0.0

    async def start(self, answer: Awaitable[None]) -> None:
        """Begin an answer and wait until there is room for another."""
        task = asyncio.ensure_future(answer)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        while len(self.tasks) >= self.window:
            await asyncio.wait(set(self.tasks), return_when=asyncio.FIRST_COMPLETED)

    def pause(self, seconds: float) -> None:
        """Take nothing for so long."""
        self.paused_until = max(self.paused_until, _now() + seconds)

    async def intake_open(self, stop: asyncio.Event) -> None:
        """Wait until no pause is in force."""
        while (rest := self.paused_until - _now()) > 0 and not stop.is_set():
            await wait_until_set(stop, rest)

    async def finish(self) -> None:
        """Wait for what is being answered; a cancellation ends it."""
        tasks = set(self.tasks)
        if not tasks:
            return
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            raise
