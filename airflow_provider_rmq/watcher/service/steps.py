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


@dataclass(slots=True)
class BlockingSteps:
    """Runs named steps on a pool of threads."""

    executor: BoundedExecutor
    timeout: float = STEP_TIMEOUT
    _attempts: dict[str, Future[Any]] = field(default_factory=dict)

    async def run(self, name: str, work: Callable[[], T]) -> T:
        """Run one step.

        Raises:
            StepSkipped: The last attempt of this step still runs.
            StepTimedOut: The step did not end in time.
        """
        attempt = self._attempts.get(name)
        if attempt is not None and not attempt.done():
            incr(Metric.CYCLE_STEP_SKIPPED)
            raise StepSkipped(f"{name}: the last attempt still runs")
        submitted = self.executor.submit(work)
        self._attempts[name] = submitted
        outcome = asyncio.wrap_future(submitted)
        done, _ = await asyncio.wait({outcome}, timeout=self.timeout)
        if not done:
            incr(Metric.CYCLE_STEP_TIMED_OUT)
            outcome.add_done_callback(_retrieve)
            raise StepTimedOut(f"{name}: no end within {self.timeout:g} s")
        return outcome.result()


def _retrieve(outcome: asyncio.Future[T]) -> None:
    """A late failure has been reported as a time-out already."""
    if not outcome.cancelled():
        outcome.exception()
