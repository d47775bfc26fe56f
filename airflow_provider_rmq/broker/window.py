"""The window of one pass of `consuming`: what is being answered, what is held back, how much the broker hands over.

A rejected message that has to go back is held for a moment, and does not count as being answered meanwhile. As long as
new messages keep coming they stay held, because a message that returns goes to the head of its queue and would come
again in front of those not seen yet. When nothing comes any more there are two cases. Either the queue has been seen
to its end, and everything held goes back. Or the broker has stopped because all it may hand over is held: then the
window doubles, so that a match behind ten thousand misses is found. It shrinks again when the misses are gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

#: Deliveries a consumer never has unsettled more of; `basic.qos` is a 16 bit number.
WIDEST = 65_535
#: Seconds after which what is held goes back even while new messages keep coming: others may want it.
LONGEST_HOLD = 5.0

Release = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class _Held:
    """Deliveries held back, and the moments that decide about their return."""

    releases: list[Release] = field(default_factory=list)
    delay: float = 0.0
    oldest: float = 0.0


@dataclass(slots=True)
class DeliveryWindow:
    """At most `size` deliveries are answered at once; `widen` asks the broker for another prefetch."""

    size: int
    widen: Callable[[int], Awaitable[None]]
    prefetch: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _kept: int = 0
    _paused_until: float = 0.0
    _held: _Held = field(default_factory=_Held)
    _held_since_widening: int = 0
    _last_arrival: float = 0.0
    _something_held: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """The broker was asked for as much as is answered at once."""
        self.prefetch = self.size

    async def start(self, answer: Awaitable[None]) -> None:
        """Begin an answer and wait until there is room for another."""
        self._last_arrival = _now()
        task = asyncio.ensure_future(answer)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        while len(self._tasks) >= self.size:
            await asyncio.wait(set(self._tasks), return_when=asyncio.FIRST_COMPLETED)

    def pause(self, seconds: float) -> None:
        """Take nothing for so long."""
        self._paused_until = max(self._paused_until, _now() + seconds)

    async def intake_open(self, stop: asyncio.Event) -> None:
        """Wait until no pause is in force."""
        while (rest := self._paused_until - _now()) > 0 and not stop.is_set():
            await wait_until_set(stop, rest)

    def hold(self, release: Release, delay: float) -> None:
        """Keep a delivery until it may go back, `delay` seconds after the last arrival at the earliest."""
        if not self._held.releases:
            self._held = _Held(oldest=_now())
        self._held.releases.append(release)
        self._held.delay = delay
        self._held_since_widening += 1
        self._something_held.set()

    async def make_room(self, kept: int) -> None:
        """So many deliveries stay unsettled for long and shall not take the others' room."""
        self._kept = kept
        if self.prefetch - kept < self.size / 2 and self.prefetch < WIDEST:
            await self._set_prefetch(min(self.size + 2 * kept, WIDEST))

    async def return_held(self) -> None:
        """Run beside the pass: send back what is held when its time has come; until cancelled."""
        while True:
            if not await wait_until_set(self._something_held, LONGEST_HOLD):
                await self._narrow()
                continue
            held = self._held
            await asyncio.sleep(max(0.0, self._last_arrival + held.delay - _now()))
            if _now() - held.oldest < LONGEST_HOLD and (
                self._tasks or _now() < self._last_arrival + held.delay or await self._widened()
            ):
                await asyncio.sleep(held.delay)
                continue
            await self._release(held)

    async def _widened(self) -> bool:
        """Whether the broker had stopped at the edge of the window, which is wider now."""
        if self._held_since_widening < self.prefetch or self.prefetch >= WIDEST:
            return False
        await self._set_prefetch(min(self.prefetch * 2, WIDEST))
        return True

    async def _release(self, held: _Held) -> None:
        self._held, self._held_since_widening = _Held(), 0
        self._something_held.clear()
        if len(held.releases) < self.prefetch // 4:
            await self._narrow()
        for release in held.releases:
            await release()

    async def _narrow(self) -> None:
        """The misses are fewer than the window was widened for."""
        narrow = max(min(self.size + self._kept, WIDEST), self.prefetch // 2)
        if narrow < self.prefetch:
            await self._set_prefetch(narrow)

    async def _set_prefetch(self, prefetch: int) -> None:
        await self.widen(prefetch)
        self.prefetch, self._held_since_widening = prefetch, 0
        self._last_arrival = _now()

    async def finish(self) -> None:
        """Wait for what is being answered; a cancellation ends it. What is held goes back with the channel."""
        tasks = set(self._tasks)
        if not tasks:
            return
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            raise


async def wait_until_set(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, at most this long; whether it is set."""
    if seconds > 0 and not event.is_set():
        waiter = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait({waiter}, timeout=seconds)
        finally:
            waiter.cancel()
    return event.is_set()


def _now() -> float:
    """The event loop's own clock, so that tests can turn it."""
    return asyncio.get_running_loop().time()
