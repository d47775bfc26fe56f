"""Waiting for a condition with a deadline. Used by every other module here and by the tests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class NotInTimeError(Exception):
    """A condition did not come true in time."""


def wait_until(
    condition: Callable[[], T | None],
    timeout: float,
    what: str,
    *,
    interval: float = 0.05,
    show: Callable[[], object] | None = None,
) -> T:
    """Call *condition* until it returns something true, and return that.

    Args:
        condition: asked again and again; an exception it raises is not caught.
        timeout: seconds before giving up.
        what: what is awaited, for the error: "the queue to be empty".
        interval: seconds between two questions.
        show: what to name as last seen in the error, when the condition's own value says too little.

    Raises:
        NotInTimeError: says what was awaited and what was last seen.
    """
    end = time.monotonic() + timeout
    while True:
        seen = condition()
        if seen:
            return seen
        if time.monotonic() > end:
            last = show() if show else seen
            raise NotInTimeError(f"waited {timeout:g} s for {what}; last seen: {last!r}")
        time.sleep(interval)
