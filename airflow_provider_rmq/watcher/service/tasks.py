"""Background tasks of the event loop: named, and never silent about an unexpected end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)


def create_guarded_task(work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
    """Start a task whose failure is logged when it happens."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_report_failure)
    return task


def _report_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s ended unexpectedly", task.get_name(), exc_info=error)


def log_failure(what: str, error: BaseException) -> None:
    """Log a fault of ours with its traceback."""
    log.error("%s failed unexpectedly", what, exc_info=error)
