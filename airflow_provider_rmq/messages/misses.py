"""`FilterMissState`: from counted outcomes to few log lines, for every loop that filters messages.

A miss is normal traffic and has no line of its own; a line appears at powers of ten. How far a counter reaches is
how long its owner lives: a consumer in the watcher, one run of a trigger, one task run, one sensor instance.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

#: First count that is worth a line; from here on every power of ten.
FIRST_WARNING = 100
#: Outcomes without a failure after which the next failure is news again.
CLEAN_RUN = 100


def is_power_of_ten(count: int, *, first: int = FIRST_WARNING) -> bool:
    """Whether a throttled line is due at this count: `first`, then ten times as many, and so on."""
    while count > first and count % 10 == 0:
        count //= 10
    return count == first


@dataclass(slots=True)
class FilterMissState:
    """Counters of one consuming loop on one queue.

    `streak`, misses since the last match; `dropped`, misses acknowledged since the start, never cleared;
    `error_streak`, failures since the last `CLEAN_RUN` outcomes without one; `clean_run`, outcomes since a failure;
    `given_up`, messages rejected because they never could be read.
    """

    queue_name: str
    logger: logging.Logger | logging.LoggerAdapter[logging.Logger]
    ack_unmatched: bool = False
    streak: int = field(default=0, init=False)
    dropped: int = field(default=0, init=False)
    error_streak: int = field(default=0, init=False)
    clean_run: int = field(default=0, init=False)
    given_up: int = field(default=0, init=False)

    def on_match(self) -> None:
        """A message was accepted and settled."""
        self.streak = 0
        self._without_failure()

    def on_miss(self) -> None:
        """A message was rejected by the filter and settled."""
        self.streak += 1
        if self.ack_unmatched:
            self.dropped += 1
        self._without_failure()
        if is_power_of_ten(self.streak):
            self.logger.warning(
                "Queue %s: %d messages in a row missed the filter and were %s; check the filter",
                self.queue_name,
                self.streak,
                "dropped (ack_unmatched=True)" if self.ack_unmatched else "returned to the queue",
            )
            if self.dropped == self.streak:
                return
        if self.ack_unmatched and is_power_of_ten(self.dropped):
            self.logger.warning(
                "%d messages that missed the filter have been dropped on queue %s (ack_unmatched=True)",
                self.dropped,
                self.queue_name,
            )

    def on_error(self, reason: str | None) -> None:
        """The filter could not be evaluated; the message went back to the queue."""
        self.error_streak += 1
        self.clean_run = 0
        if self.error_streak == 1 or is_power_of_ten(self.error_streak):
            self.logger.warning(
                "Filter could not be evaluated on a message of queue %s, which goes back to the queue: %s (failure %d)",
                self.queue_name,
                reason or "no reason given",
                self.error_streak,
            )

    def on_given_up(self, identity: str, turns: int, reason: str | None) -> None:
        """The filter could not be evaluated so often that the message was rejected without requeue."""
        self.given_up += 1
        if is_power_of_ten(self.given_up, first=1):
            self.logger.warning(
                "Queue %s: the message with %s could not be read %d times and is rejected without requeue, which "
                "leaves it to the queue's dead-letter exchange, if there is one: %s (message %d of its kind)",
                self.queue_name,
                identity,
                turns,
                reason or "no reason given",
                self.given_up,
            )

    def on_batch_done(self, matched: int, evaluated: int, dropped_in_batch: int) -> None:
        """One batch is over: the line for an owner whose batch is too small for the thresholds above.

        Args:
            matched: Messages the filter accepted.
            evaluated: Messages the filter reached a verdict on; failures to evaluate are not among them.
            dropped_in_batch: Rejected messages that were acknowledged.
        """
        parts = []
        if evaluated and not matched:
            parts.append(f"none of the {evaluated} messages of this batch passed the filter")
        if dropped_in_batch:
            parts.append(f"{dropped_in_batch} did not pass the filter and were dropped (ack_unmatched=True)")
        if parts:
            self.logger.warning("Queue %s: %s", self.queue_name, "; ".join(parts))

    def _without_failure(self) -> None:
        self.clean_run += 1
        if self.clean_run >= CLEAN_RUN:
            self.error_streak = 0
