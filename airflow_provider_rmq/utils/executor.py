"""`BoundedExecutor`: a thread pool for blocking calls that refuses work instead of queueing it without end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from airflow_provider_rmq.errors import ConfigurationError, RMQError

T = TypeVar("T")

#: Calls running and waiting, for each worker: one at work and two behind it.
CALLS_PER_WORKER = 3


class PoolSaturated(RMQError):
    """The pool holds as many calls as it may; try again later."""


class BoundedExecutor:
    """A named thread pool with a bounded number of calls in flight.

    A call whose waiter has given up stays in flight until its thread is free again, so that stuck calls use up the
    capacity visibly instead of piling up.
    """

    def __init__(self, name: str, max_workers: int) -> None:
        if max_workers < 1:
            raise ConfigurationError(f"max_workers of pool {name} must be at least 1, not {max_workers!r}")
        self.name = name
        self.capacity = CALLS_PER_WORKER * max_workers
        self._in_flight = 0
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(max_workers=max_workers, thread_name_prefix=name)

    @property
    def in_flight(self) -> int:
        """Calls accepted and not yet over."""
        with self._lock:
            return self._in_flight

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Start the call in a thread.

        Raises:
            PoolSaturated: `capacity` calls are in flight.
            RuntimeError: The pool is shut down.
        """
        with self._lock:
            if self._in_flight >= self.capacity:
                raise PoolSaturated(f"pool {self.name} has {self._in_flight} of {self.capacity} calls in flight")
            self._in_flight += 1
        try:
            future = self._threads.submit(function, *args, **kwargs)
        except BaseException:
            self._release()
            raise
        future.add_done_callback(self._release)
        return future

    async def run(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Start the call in a thread and await its end; cancelling the caller does not stop a running call."""
        return await asyncio.wrap_future(self.submit(function, *args, **kwargs))

    def shutdown(self, wait: bool = False) -> None:
        """Refuse new calls and drop those not started; with `wait` until the running ones are over."""
        self._threads.shutdown(wait=wait, cancel_futures=True)

    def _release(self, _future: Future[Any] | None = None) -> None:
        with self._lock:
            self._in_flight -= 1
