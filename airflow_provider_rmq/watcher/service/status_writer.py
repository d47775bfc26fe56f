"""The one writer of subscription rows' status: newest wins, written soon after a change and once in every cycle.

Writing again what is believed to stand there costs one query and repairs a row that another replica wrote meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from airflow_provider_rmq.broker.window import wait_until_set
from airflow_provider_rmq.errors import describe
from airflow_provider_rmq.messages.backoff import Backoff
from airflow_provider_rmq.messages.misses import is_power_of_ten
from airflow_provider_rmq.watcher.states import Row

log = logging.getLogger(__name__)

#: Seconds in which changes gather before they are written together.
GATHERING = 0.1

WriteRows = Callable[[Mapping[int, Row]], Awaitable[None]]


@dataclass(slots=True)
class StatusWriter:
    """Holds the newest status of every subscription and writes what changed."""

    write: WriteRows
    rows: dict[int, Row] = field(default_factory=dict)
    _unwritten: set[int] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _pauses: Backoff = field(default_factory=Backoff)

    def report(self, subscription_id: int, row: Row) -> None:
        """Take note of a status."""
        if self.rows.get(subscription_id) != row:
            self.rows[subscription_id] = row
            self._unwritten.add(subscription_id)
            self._changed.set()

    def forget(self, subscription_id: int) -> None:
        """The subscription is no longer this process's; what it said last is still written."""
        if subscription_id not in self._unwritten:
            self.rows.pop(subscription_id, None)

    def repeat_all(self) -> None:
        """Write every row again with the next flush."""
        self._unwritten.update(self.rows)
        self._changed.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Write changes until told to stop."""
        while not stop.is_set():
            if not await _either(self._changed, stop):
                return
            await wait_until_set(stop, GATHERING)
            if not await self.flush():
                await wait_until_set(stop, self._pauses.next())

    async def flush(self) -> bool:
        """Write what is not written yet; whether the database took it."""
        self._changed.clear()
        pending, self._unwritten = self._unwritten, set()
        rows = {key: self.rows[key] for key in pending if key in self.rows}
        if not rows:
            return True
        try:
            await self.write(rows)
        except Exception as error:  # noqa: BLE001 - whatever the database raises; the rows stay pending
            if is_power_of_ten(self._pauses.failures + 1, first=1):
                log.warning(
                    "the status of %d subscriptions could not be written (failure %d in a row): %s",
                    len(rows),
                    self._pauses.failures + 1,
                    describe(error),
                )
            self._unwritten |= pending
            self._changed.set()
            return False
        self._pauses.reset()
        return True


async def _either(changed: asyncio.Event, stop: asyncio.Event) -> bool:
    """Wait for a change or the stop; whether there is a change."""
    waiters = {asyncio.ensure_future(event.wait()) for event in (changed, stop)}
    try:
        await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiter in waiters:
            waiter.cancel()
    return changed.is_set()
