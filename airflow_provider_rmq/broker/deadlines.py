"""`call_with_timeout`: bounds the time a caller waits, without ever swallowing the caller's own cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def call_with_timeout(awaitable: Awaitable[T], timeout: float) -> T:
    """Await at most `timeout` seconds.

    The inner call is cancelled when the time is over, but its end is not waited for: aio-pika 9 may answer a
    cancellation with an error of its own, or not at all while its socket is stuck.

    Raises:
        asyncio.TimeoutError: The time is over.
        asyncio.CancelledError: The caller was cancelled; always passed on.
    """
    inner = asyncio.ensure_future(awaitable)
    try:
        done, _ = await asyncio.wait({inner}, timeout=timeout)
    except asyncio.CancelledError:
        _abandon(inner)
        raise
    if done:
        return inner.result()
    _abandon(inner)
    raise asyncio.TimeoutError(f"no answer within {timeout:g} s")


def _abandon(inner: asyncio.Future[T]) -> None:
    inner.cancel()
    inner.add_done_callback(_retrieve)


def _retrieve(inner: asyncio.Future[T]) -> None:
    """Fetch a late error so that asyncio does not report it as never retrieved."""
    if not inner.cancelled():
        inner.exception()
