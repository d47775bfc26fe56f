"""The watcher's worker process: prepares Airflow, runs the event loop in a thread, leaves in bounded time.

The main thread loads Airflow and its plugins, as the Scheduler's does, and then waits for a reason to stop. Airflow
is imported late, inside functions: until then this process can be stopped at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial

from airflow_provider_rmq.watcher.process.child import LAST_END, RESTARTS, SCHEDULER_PID
from airflow_provider_rmq.watcher.process.restarts import EXIT_FAILED, EXIT_STOPPED
from airflow_provider_rmq.watcher.process.signals import (
    EXIT_DEADLINE,
    Stop,
    StopReason,
    StopWaiter,
    exit_at_latest_in,
    limit_life_after_parent,
)
from airflow_provider_rmq.watcher.process.stderr_lines import StderrLines

log = logging.getLogger("airflow_provider_rmq.watcher.runner")

#: Seconds the loop has to stop the consumers.
LOOP_STOP_TIMEOUT = 45.0
#: Seconds logging may take to shut down.
LOGGING_STOP_TIMEOUT = 2.0
#: Seconds between a failure of the loop and the next one.
LOOP_RESTART_PAUSE = 30.0

_lines = StderrLines()


def run(parent_pid: int) -> int:
    """Run the watcher until told to stop; does not return while a thread is left that could hold the exit up."""
    waiter = StopWaiter(parent_pid)
    if (refusal := limit_life_after_parent()) is not None:
        tell(refusal)
    preparation = _Preparation(waiter)
    preparation.start()
    try:
        _prepare_airflow()
        waiter.reclaim()
        preparation.finish()
        code = _watch(waiter)
    except BaseException:  # a plugin that calls exit() on import is no order to stop
        exit_at_latest_in(EXIT_DEADLINE)
        log.exception("RMQ Watcher process failed — exiting")
        code = EXIT_FAILED
    _leave(code)
    return code


def _prepare_airflow() -> None:
    from airflow_provider_rmq import compat  # noqa: PLC0415 - late on purpose, see above

    compat.prepare_process()


@dataclass(slots=True)
class _Preparation:
    """Watches for a reason to stop while the main thread is busy importing, and then leaves at once."""

    waiter: StopWaiter
    _done: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._watch, name="rmq-watcher-preparation", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """The main thread takes over."""
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._done.is_set():
            stop = self.waiter.wait(0.2)
            if stop is None:
                continue
            exit_at_latest_in(EXIT_DEADLINE)
            gone = stop.reason is StopReason.PARENT_GONE
            what = f"{_parent_in_words(self.waiter)} exited" if gone else f"received {stop.signal_name}"
            tell(f"{what} while Airflow was being prepared — exiting")
            os._exit(EXIT_STOPPED)


def _watch(waiter: StopWaiter) -> int:
    started = datetime.now(timezone.utc).replace(tzinfo=None)
    log.info(
        "RMQ Watcher process %d started for the scheduler process %s",
        os.getpid(),
        os.environ.get(SCHEDULER_PID, "unknown"),
    )
    _count_restart()
    loop = _LoopThread(started, partial(_orphaned, waiter))
    loop.start()
    while loop.is_alive():
        stop = waiter.wait()
        if stop is not None:
            exit_at_latest_in(EXIT_DEADLINE)
            _report_stop(stop, waiter)
            loop.stop()
            loop.join(LOOP_STOP_TIMEOUT)
            if loop.is_alive():
                tell(f"the loop is still running {LOOP_STOP_TIMEOUT:g}s after the stop — exiting without it")
            return EXIT_STOPPED
    exit_at_latest_in(EXIT_DEADLINE)
    if loop.failure is None and waiter.parent_gone():  # the loop has looked first, and said so
        return EXIT_STOPPED
    log.error("RMQ Watcher loop failed — exiting", exc_info=loop.failure)
    return EXIT_FAILED


def _count_restart() -> None:
    from airflow_provider_rmq.utils.metrics import incr  # noqa: PLC0415 - Airflow is there now
    from airflow_provider_rmq.watcher.tunables import Metric  # noqa: PLC0415

    restarts = os.environ.get(RESTARTS, "0")
    if restarts != "0":
        last_end = os.environ.get(LAST_END, "")
        log.warning("RMQ Watcher process %d is restart number %s, after %s", os.getpid(), restarts, last_end)
        incr(Metric.PROCESS_RESTARTED)


def _report_stop(stop: Stop, waiter: StopWaiter) -> None:
    if stop.reason is StopReason.PARENT_GONE:
        log.error("RMQ Watcher process: %s — stopping the watcher", _orphaned(waiter))
    else:
        log.info("RMQ Watcher process received %s — stopping the watcher", stop.signal_name)


def _orphaned(waiter: StopWaiter) -> str | None:
    """What has happened to the parent; None while it is there."""
    if not waiter.parent_gone():
        return None
    return f"{_parent_in_words(waiter)} has exited (parent is now {os.getppid()})"


def _parent_in_words(waiter: StopWaiter) -> str:
    """Who has died: the Scheduler, and the supervisor with it, or the supervisor alone."""
    scheduler = os.environ.get(SCHEDULER_PID, "")
    if scheduler.isdigit():
        try:
            os.kill(int(scheduler), 0)
        except ProcessLookupError:
            return f"the scheduler process {scheduler}"
        except PermissionError:
            pass  # it is there
    return f"the supervisor process {waiter.parent_pid}"


class _LoopThread(threading.Thread):
    """Runs the watcher's event loop; makes a new one when a loop fails."""

    def __init__(self, started: datetime, orphaned: Callable[[], str | None]) -> None:
        super().__init__(name="rmq-watcher-loop", daemon=True)
        self._orphaned = orphaned
        self._process_start = started
        self._stop_asked = threading.Event()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_in_loop: asyncio.Event | None = None
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._run_loops()
        except BaseException as error:  # noqa: BLE001 - the main thread reports it and ends the process
            self.failure = error

    def _run_loops(self) -> None:
        while not self._stop_asked.is_set():
            try:
                asyncio.run(self._main())
                return
            except Exception:
                log.exception("RMQ Watcher loop failed, it is made anew in %g s", LOOP_RESTART_PAUSE)
                self._stop_asked.wait(LOOP_RESTART_PAUSE)

    def stop(self) -> None:
        """Ask the loop to stop; from any thread."""
        self._stop_asked.set()
        with self._lock:
            if self._loop is not None and self._stop_in_loop is not None:
                self._loop.call_soon_threadsafe(self._stop_in_loop.set)

    async def _main(self) -> None:
        from airflow_provider_rmq.watcher.consumer import build_watcher_loop  # noqa: PLC0415 - imports Airflow
        from airflow_provider_rmq.watcher.rows.restarts import WorkerStart  # noqa: PLC0415 - and SQLAlchemy

        stop = asyncio.Event()
        with self._lock:
            self._loop, self._stop_in_loop = asyncio.get_running_loop(), stop
        if self._stop_asked.is_set():
            stop.set()
        try:
            start = WorkerStart(
                hostname=socket.gethostname(),
                scheduler_pid=_number(SCHEDULER_PID),
                restarts=_number(RESTARTS),
                last_end=os.environ.get(LAST_END, ""),
                at=self._process_start,
            )
            await build_watcher_loop(start, self._orphaned).run(stop)
        finally:
            with self._lock:
                self._loop = self._stop_in_loop = None


def _number(variable: str) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isdigit() else 0


def _leave(code: int) -> None:
    """Flush and shut logging down, then end without waiting for threads that hang in a database or a DNS lookup."""
    closer = threading.Thread(target=logging.shutdown, daemon=True)
    closer.start()
    closer.join(LOGGING_STOP_TIMEOUT)
    if closer.is_alive():
        tell(f"logging did not shut down within {LOGGING_STOP_TIMEOUT:g}s — exiting without it")
    os._exit(code)


def tell(text: str) -> None:
    """Write to stderr past Airflow's logging, whose locks another thread may hold."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    _lines.write(f"[{stamp}] RMQ Watcher process {os.getpid()}: {text}")
