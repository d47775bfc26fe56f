"""Opens cooldown windows: one attempt for each DAG in flight, however many deliveries wait for it.

A delivery that comes while an attempt runs waits for it and shares its success. Where the attempt fails, only the
delivery that began it learns so and goes back; the others wait out the growing pause, and one of them begins the next.
So an alarm at the broker costs one redelivery for each attempt, not one for each waiting message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from airflow_provider_rmq.broker.publishing import Marker, MarkerOutcome, MarkerReport
from airflow_provider_rmq.broker.window import wait_until_set
from airflow_provider_rmq.watcher.service.handlers.starting import GrowingPause
from airflow_provider_rmq.watcher.service.tasks import log_failure

#: Seconds a delivery waits behind failing attempts before it goes back; well below a broker's `consumer_timeout`.
LONGEST_WAIT = 600.0

_GIVEN_UP = MarkerReport(MarkerOutcome.FAILED, "an unexpected failure, see the log")
_OPEN_ALREADY = MarkerReport(MarkerOutcome.OPEN_ALREADY)


class Publisher(Protocol):
    """Publishes markers."""

    async def open_window(self, conn_id: str, marker: Marker) -> MarkerReport:
        """Try once."""
        ...


@dataclass(slots=True)
class CooldownWindow:
    """The window of one DAG, shared by all subscriptions of the DAG."""

    publisher: Publisher
    conn_id: Callable[[], str]
    pause: GrowingPause = field(default_factory=GrowingPause)
    _attempt: asyncio.Task[MarkerReport] | None = None

    async def ensure_open(self, marker: Marker, stop: asyncio.Event) -> MarkerReport | None:
        """Have a window open, by this marker or an earlier one; None when the delivery should go back unheard.

        That is when the consumer stops, and when it has waited behind others for too long.
        """
        loop = asyncio.get_running_loop()
        give_up = loop.time() + LONGEST_WAIT
        while not stop.is_set() and loop.time() < give_up:
            if self._attempt is not None:
                report = await _ended(self._attempt, stop)
                if report is not None and report.outcome.is_open:
                    return _OPEN_ALREADY
            elif rest := self.pause.rest():
                await wait_until_set(stop, min(rest, give_up - loop.time()))
            else:
                self._attempt = asyncio.ensure_future(self._try(marker))
                return await _ended(self._attempt, stop)
        return None

    async def _try(self, marker: Marker) -> MarkerReport:
        try:
            report = await self.publisher.open_window(self.conn_id(), marker)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not leave the window stuck in an attempt
            log_failure("opening a cooldown window", error)
            report = _GIVEN_UP
        if report.outcome.is_open:
            self.pause.reset()
        else:
            self.pause.after_failure()
        self._attempt = None
        return report


@dataclass(slots=True)
class CooldownWindows:
    """The windows of this process, one for each DAG."""

    publisher: Publisher
    conn_id: Callable[[], str]
    _windows: dict[str, CooldownWindow] = field(default_factory=dict)

    def of(self, dag_id: str) -> CooldownWindow:
        """The window of a DAG."""
        if dag_id not in self._windows:
            self._windows[dag_id] = CooldownWindow(self.publisher, self.conn_id)
        return self._windows[dag_id]


async def _ended(attempt: asyncio.Task[MarkerReport], stop: asyncio.Event) -> MarkerReport | None:
    """How an attempt ended, None when the stop comes first."""
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({attempt, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
    return attempt.result() if attempt.done() else None
