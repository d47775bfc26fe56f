"""A steady stream of messages while something breaks, and the count of the runs they started.

Each message has an id of its own and is published until the broker confirms it, so what is counted as published is
in the queue. Runs are read from the database: a message without a run is lost, a run more than messages is doubled.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import count, pairwise
from types import TracebackType
from typing import TYPE_CHECKING

import pika
import pika.exceptions

from integration.lab.waiting import wait_until

if TYPE_CHECKING:
    from integration.faults.site import Site

_NUMBERS = count(1)
#: Seconds between two attempts of a publisher that lost its broker.
RETRY_PAUSE = 0.2
#: Seconds within which everything that was published has its run, once nothing is broken any more.
CATCH_UP = 90


@dataclass(frozen=True)
class Run:
    """One DAG run of the burst's queue."""

    run_id: str
    created: datetime


@dataclass
class Burst:
    """Publishes while its block runs; afterwards `lost` and `doubled` tell what became of the messages."""

    site: Site
    queue: str
    dag_id: str
    rate: float = 10.0
    exchange: str = ""
    routing_key: str = ""
    confirmed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = f"b{next(_NUMBERS)}"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._publish_all, name="burst", daemon=True)
        self._begun = datetime.now(timezone.utc)
        self._connection: pika.BlockingConnection | None = None

    def __enter__(self) -> Burst:
        self._thread.start()
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(60 if error is None else 5)
        if error is None and self._thread.is_alive():
            raise AssertionError("the publisher did not end: the broker confirms nothing")

    # -- what became of it

    def runs(self) -> list[Run]:
        """Every run created since the burst began, oldest first."""
        return [run for run in self.site.runs(self.dag_id) if run.created >= self._begun]

    def wait_for_runs(self, number: int, timeout: float = 60) -> None:
        """Wait until so many messages have their run."""
        wait_until(lambda: len(self.runs()) >= number, timeout, f"{number} runs", interval=0.1, show=self.site.rows)

    def wait_for_messages(self, number: float) -> None:
        """Wait until so many more messages are published, which is also a measure of time."""
        wanted = len(self.confirmed) + number
        wait_until(lambda: len(self.confirmed) >= wanted, 30 + 3 * number / self.rate, f"{number:g} more messages")

    def seconds_until_next_run(self, after: datetime, timeout: float = CATCH_UP) -> float:
        """Wait for the first run created after a moment; the seconds from that moment on."""

        def first() -> Run | None:
            return next((run for run in self.runs() if run.created > after), None)

        run = wait_until(first, timeout, "the first run after the fault", interval=0.1, show=self.site.rows)
        return (run.created - after).total_seconds()

    def longest_silence(self, after: datetime, runs: int = 10) -> float:
        """Wait for so many runs created after a moment; the longest pause between two of them, or before the first."""
        wait_until(
            lambda: sum(run.created > after for run in self.runs()) >= runs,
            CATCH_UP,
            "the runs after the fault",
            interval=0.1,
            show=self.site.rows,
        )
        moments = [after, *(run.created for run in self.runs() if run.created > after)]
        return max((later - earlier).total_seconds() for earlier, later in pairwise(moments))

    def settle(self) -> tuple[int, int]:
        """Wait until every confirmed message has its run and the queue is empty; lost and doubled."""
        wanted = {f"rmq__{self.queue}__{message_id}" for message_id in self.confirmed}
        missing: set[str] = set()

        def complete() -> bool:
            nonlocal missing
            missing = wanted - {run.run_id for run in self.runs()}
            return not missing

        end = time.monotonic() + CATCH_UP
        while not complete() and time.monotonic() < end:
            time.sleep(0.1)
        self.site.wait_until_empty(self.queue)
        runs = self.runs()
        return len(missing), len(runs) - len(wanted & {run.run_id for run in runs})

    # -- publishing

    def _publish_all(self) -> None:
        for number in count():
            if self._stop.is_set():
                break
            due = time.monotonic() + 1 / self.rate
            self._publish_until_confirmed(f"{self.name}-{number}")
            self._stop.wait(max(0.0, due - time.monotonic()))
        if self._connection is not None and self._connection.is_open:
            self._connection.close()

    def _publish_until_confirmed(self, message_id: str) -> None:
        properties = pika.BasicProperties(message_id=message_id, delivery_mode=2)
        while True:
            try:
                channel = self._channel()
                key = self.routing_key or self.queue
                channel.basic_publish(self.exchange, key, message_id.encode(), properties, mandatory=True)
            except (pika.exceptions.AMQPError, OSError):
                self._connection = None
                if self._stop.wait(RETRY_PAUSE):
                    return
                continue
            self.confirmed.append(message_id)
            return

    def _channel(self) -> pika.adapters.blocking_connection.BlockingChannel:
        if self._connection is None or not self._connection.is_open:
            parameters = pika.URLParameters(self.site.publisher_url())
            parameters.socket_timeout = parameters.blocked_connection_timeout = 3
            parameters.heartbeat = 4
            self._connection = pika.BlockingConnection(parameters)
            self._open = self._connection.channel()
            self._open.confirm_delivery()
        return self._open


def now() -> datetime:
    """The moment, comparable to the database's."""
    return datetime.now(timezone.utc)
