"""Blocking work of a cycle: each step bounded in time, with one attempt in flight.

A step that hangs (a database that does not answer, a network file system) costs its cycle a minute, not the loop; the
stuck attempt stays in its thread, and the step is left out until that attempt has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from airflow_provider_rmq.errors import RMQError
from airflow_provider_rmq.utils.executor import BoundedExecutor
from airflow_provider_rmq.utils.metrics import incr
from airflow_provider_rmq.watcher.tunables import STEP_TIMEOUT, Metric

T = TypeVar("T")


class StepTimedOut(RMQError):
    """The step did not end within its bound; its attempt goes on in a thread."""


class StepSkipped(RMQError):
    """The step's last attempt still runs."""


class StepAbandoned(RMQError):
    """The watcher stops and waits for the step no longer; its attempt goes on in a thread."""


@dataclass(slots=True)
class BlockingSteps:
    """Runs named steps on a pool of threads."""

    executor: BoundedExecutor
    timeout: float = STEP_TIMEOUT
    _attempts: dict[str, Future[Any]] = field(default_factory=dict)

    async def run(
        self, name: str, work: Callable[[], T], *, bound: float | None = None, until: asyncio.Event | None = None
    ) -> T:
        """Run one step.

        Args:
            name: Which step; one attempt of each is in flight.
            work: Blocking.
            bound: Seconds, where it is not the usual `timeout`.
            until: Once it is set the step is not waited for any more.

        Raises:
            StepSkipped: The last attempt of this step still runs.
            StepTimedOut: The step did not end in time.
            StepAbandoned: The event came first.
        """
        attempt = self._attempts.get(name)
        if attempt is not None and not attempt.done():
            incr(Metric.CYCLE_STEP_SKIPPED)
            raise StepSkipped(f"{name}: the last attempt still runs")
        submitted = self.executor.submit(work)
        self._attempts[name] = submitted
        outcome = asyncio.wrap_future(submitted)
        seconds = self.timeout if bound is None else bound
        ended = await _ended(outcome, seconds, until)
        if not ended:
            outcome.add_done_callback(_retrieve)
            if until is not None and until.is_set():
                raise StepAbandoned(f"{name}: not waited for, the watcher stops")
            incr(Metric.CYCLE_STEP_TIMED_OUT)
            raise StepTimedOut(f"{name}: no end within {seconds:g} s")
        return outcome.result()


async def _ended(outcome: asyncio.Future[T], seconds: float, until: asyncio.Event | None) -> bool:
    """Whether the outcome is there within the time and before the event."""
    stopped = asyncio.ensure_future(until.wait()) if until is not None else None
    try:
        waited: set[asyncio.Future[Any]] = {outcome} if stopped is None else {outcome, stopped}
        await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if stopped is not None:
            stopped.cancel()
    return outcome.done()


def _retrieve(outcome: asyncio.Future[T]) -> None:
    """A late failure has been reported as a time-out already."""
    if not outcome.cancelled():
        outcome.exception()
