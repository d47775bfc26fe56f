"""`BoundedExecutor`: a thread pool that refuses work instead of queueing it without end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from airflow_provider_rmq.errors import RMQError

T = TypeVar("T")

#: Calls accepted per thread: one running and two waiting.
CALLS_PER_WORKER = 3


class PoolSaturated(RMQError):
    """All threads are busy and the waiting line is full: whatever they wait for does not answer."""


class BoundedExecutor:
    """A named pool of threads with a bound on what is running and waiting."""

    def __init__(self, name: str, max_workers: int) -> None:
        """Make a pool of `max_workers` threads that accepts three calls a thread."""
        self.name = name
        self.capacity = CALLS_PER_WORKER * max_workers
        self._pool = ThreadPoolExecutor(max_workers, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._in_flight = 0

    @property
    def in_flight(self) -> int:
        """Calls that are running or waiting."""
        return self._in_flight

    def submit(self, work: Callable[..., T], /, *args: Any) -> Future[T]:
        """Hand a call to the pool.

        Raises:
            PoolSaturated: The pool holds as many calls as it may.
        """
        with self._lock:
            if self._in_flight >= self.capacity:
                raise PoolSaturated(f"thread pool {self.name} is saturated: {self._in_flight} calls have not ended")
            self._in_flight += 1
        try:
            future = self._pool.submit(work, *args)
        except BaseException:
            self._release()
            raise
        future.add_done_callback(lambda _: self._release())
        return future

    async def run(self, work: Callable[..., T], /, *args: Any) -> T:
        """Hand a call to the pool and await its result; a cancellation leaves the call in its thread.

        Raises:
            PoolSaturated: The pool holds as many calls as it may.
        """
        return await asyncio.wrap_future(self.submit(work, *args))

    def shutdown(self) -> None:
        """Accept nothing more; calls that hang are left to the end of the process."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _release(self) -> None:
        with self._lock:
            self._in_flight -= 1
