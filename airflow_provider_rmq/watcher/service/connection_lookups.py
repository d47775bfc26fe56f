"""Reading Airflow connections from the event loop: in threads, one attempt for each conn_id in flight, bounded.

A secrets backend that hangs on one conn_id holds one thread, however often it is asked for: the pool, the management
API and the liveness check all come here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.utils.executor import BoundedExecutor

#: Seconds one look-up is waited for; what takes longer stays in flight for the next who asks.
LOOKUP_TIMEOUT = 15.0


@dataclass(slots=True)
class ConnectionLookups:
    """Looks Airflow connections up on a pool of threads."""

    executor: BoundedExecutor
    read: Callable[[str], ConnectionSettings]
    _attempts: dict[str, Future[ConnectionSettings]] = field(default_factory=dict)

    async def look_up(self, conn_id: str) -> ConnectionSettings:
        """The settings of a connection, as they are stored now.

        Raises:
            asyncio.TimeoutError: No answer within `LOOKUP_TIMEOUT`.
            Exception: Whatever the secrets backend or the metadata database refuses it with.
        """
        attempt = self._attempts.get(conn_id)
        if attempt is None or attempt.done():
            attempt = self._attempts[conn_id] = self.executor.submit(self.read, conn_id)
        waiting = asyncio.wrap_future(attempt)
        done, _ = await asyncio.wait({waiting}, timeout=LOOKUP_TIMEOUT)
        if not done:
            waiting.add_done_callback(_retrieve)
            raise asyncio.TimeoutError(f"reading Airflow connection {conn_id} took longer than {LOOKUP_TIMEOUT:g} s")
        return waiting.result()


def _retrieve(waiting: asyncio.Future[ConnectionSettings]) -> None:
    """A late failure has been reported as a time-out already."""
    if not waiting.cancelled():
        waiting.exception()
