"""Publishing with confirms, many in flight: the broker's answers are waited for in bulk, not one by one.

pika's `BlockingChannel` waits for each confirm (1,570 messages a second where 22,000 leave without confirms), so this
module talks to the channel underneath it: `_impl`, `_flush_output` and `_output_marshaled_frames` are pika's privates,
used here alone (pika 1.3 and 1.4).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pika.exceptions

from airflow_provider_rmq.broker.pika_connection import BoundedConnection
from airflow_provider_rmq.broker.properties import Properties
from airflow_provider_rmq.broker.publish_frames import PublishFrames
from airflow_provider_rmq.broker.refusals import Operation, refusal
from airflow_provider_rmq.errors import PublishFailed, PublishReport, Unroutable, describe

logger = logging.getLogger("airflow.task")

#: Messages sent and not yet confirmed; enough to hide the round trip, little enough to be told apart after a loss.
WINDOW = 500
#: Bytes that are written to the socket together.
CHUNK_BYTES = 32 * 1024
#: Bytes of a body that travels alone, so that a refusal of its size names it and nothing else is in doubt.
LARGE_BODY = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """Messages to publish that differ in nothing but their bodies."""

    exchange: str
    routing_key: str
    bodies: Sequence[bytes]
    properties: Properties


class _Fate(Enum):
    NOT_SENT = "not sent"
    UNKNOWN = "unknown"
    CONFIRMED = "confirmed"
    UNROUTABLE = "unroutable"
    REFUSED = "refused"


def publishing(exchange: str, routing_key: str) -> Operation:
    """What publishing is called in an error; it needs the write permission."""
    target = f"exchange {exchange!r}" if exchange else "the default exchange"
    return Operation(
        what=f"publish to {target} with routing key {routing_key!r}",
        queue_permission="write",
        exchange_permission="write",
    )


class ConfirmingChannel:
    """A channel in confirm mode.

    Args:
        connection: The open connection.
        patience: Seconds without any confirm after which what is in flight counts as unknown. A broker under a
            resource alarm answers late, so this is the time a publisher may stay blocked.
    """

    def __init__(self, connection: BoundedConnection, patience: float) -> None:
        self._connection = connection
        self._patience = patience
        self._channel = connection.channel()
        self._impl = self._channel._impl  # noqa: SLF001 - see the module's docstring
        self._next_tag = 1
        self._batch: _BatchInFlight | None = None
        ready: list[object] = []
        self._impl.add_on_return_callback(self._on_return)
        self._impl.confirm_delivery(self._on_confirm, callback=ready.append)
        self._flush(lambda: bool(ready))

    @property
    def is_open(self) -> bool:
        """Whether it can publish."""
        return bool(self._channel.is_open)

    def publish(self, outgoing: Outgoing, *, mandatory: bool) -> None:
        """Publish all messages and wait until each is confirmed.

        Sending ends with the first message that is returned or refused. The first message travels alone: a missing
        exchange, queue or permission shows with it, before anything else is sent.

        Raises:
            Unroutable: A message came back because no queue takes it.
            PublishFailed: The broker refused a message, did not answer in time, or the connection was lost. Its
                `report` says which messages are confirmed, unknown or were not sent.
        """
        batch = self._batch = _BatchInFlight(outgoing)
        cause: BaseException | None = None
        try:
            self._send(batch, mandatory=mandatory)
        except (pika.exceptions.AMQPError, OSError) as error:
            cause = error
            batch.refuse_the_only_one(error)
        finally:
            self._batch = None
        if cause is not None or not batch.is_complete:
            raise batch.failure(cause, self._patience) from cause

    def _send(self, batch: _BatchInFlight, *, mandatory: bool) -> None:
        outgoing = batch.outgoing
        frames = PublishFrames(
            self._channel.channel_number,
            self._impl.connection.params.frame_max,
            exchange=outgoing.exchange,
            routing_key=outgoing.routing_key,
            mandatory=mandatory,
            properties=outgoing.properties,
        )
        chunk = bytearray()
        for index, body in enumerate(outgoing.bodies):
            travels_alone = index == 0 or len(body) > LARGE_BODY
            if travels_alone or len(batch.in_flight) >= WINDOW:
                self._write(chunk)
                self._wait(batch, at_most=0 if travels_alone else WINDOW // 2)
            if batch.is_over:
                break
            chunk += frames.of(body)
            batch.sent(self._next_tag, index)
            self._next_tag += 1
            if travels_alone or len(chunk) > CHUNK_BYTES:
                self._write(chunk)
                self._flush(lambda: True)
            if travels_alone:
                self._wait(batch, at_most=0)
        self._write(chunk)
        self._wait(batch, at_most=0)

    def _write(self, chunk: bytearray) -> None:
        if chunk:
            self._impl.connection._output_marshaled_frames([bytes(chunk)])  # noqa: SLF001 - see the docstring
            chunk.clear()

    def _wait(self, batch: _BatchInFlight, *, at_most: int) -> None:
        """Serve the connection until no more messages than that are unconfirmed, or `patience` is over."""
        while len(batch.in_flight) > at_most and not batch.has_timed_out:
            before = len(batch.in_flight)
            deadline = time.monotonic() + self._patience
            wake_up = self._connection.call_later(self._patience, _nothing)
            try:
                with self._connection.waiting_on_purpose():
                    self._flush(_progress(batch, before, at_most, deadline))
            finally:
                if self._connection.is_open:
                    self._connection.remove_timeout(wake_up)
            batch.has_timed_out = len(batch.in_flight) == before
        batch.is_over = batch.is_over or batch.has_timed_out

    def _flush(self, until: Callable[[], bool]) -> None:
        self._channel._flush_output(until)  # noqa: SLF001 - see the module's docstring

    def _on_confirm(self, frame: Any) -> None:
        if self._batch is not None:
            refused = isinstance(frame.method, pika.spec.Basic.Nack)
            self._batch.answered(frame.method.delivery_tag, multiple=frame.method.multiple, refused=refused)

    def _on_return(self, _channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        if self._batch is not None:
            self._batch.returned(body or b"", method.reply_text)


def _nothing() -> None:
    """A timer that only wakes the poll."""


def _progress(batch: _BatchInFlight, before: int, at_most: int, deadline: float) -> Callable[[], bool]:
    def is_reached() -> bool:
        left = len(batch.in_flight)
        return left <= at_most or (left < before and left <= WINDOW // 2) or time.monotonic() >= deadline

    return is_reached


class _BatchInFlight:
    """The fate of every message of one batch."""

    def __init__(self, outgoing: Outgoing) -> None:
        self.outgoing = outgoing
        self.in_flight: dict[int, int] = {}  # delivery tag -> index, in the order of sending
        self.is_over = False
        self.has_timed_out = False
        self._fates = [_Fate.NOT_SENT] * len(outgoing.bodies)
        self._return_reason = ""

    @property
    def is_complete(self) -> bool:
        return all(fate is _Fate.CONFIRMED for fate in self._fates)

    def sent(self, tag: int, index: int) -> None:
        self.in_flight[tag] = index
        self._fates[index] = _Fate.UNKNOWN

    def answered(self, tag: int, *, multiple: bool, refused: bool) -> None:
        tags = [tag]
        if multiple:
            tags = [earlier for earlier in self.in_flight if earlier <= tag]
        for each in tags:
            index = self.in_flight.pop(each, None)
            if index is not None and self._fates[index] is _Fate.UNKNOWN:
                self._fates[index] = _Fate.REFUSED if refused else _Fate.CONFIRMED
                self.is_over = self.is_over or refused

    def returned(self, body: bytes, reason: str) -> None:
        """Returns carry no tag, but come in the order of sending and before the confirm of the same message."""
        self.is_over = True
        self._return_reason = reason
        for index in self.in_flight.values():
            if self._fates[index] is _Fate.UNKNOWN and self.outgoing.bodies[index] == body:
                self._fates[index] = _Fate.UNROUTABLE
                return

    def refuse_the_only_one(self, error: BaseException) -> None:
        """A channel closed by the broker while one message was in flight was closed because of that message."""
        unanswered = list(self.in_flight.values())
        if len(unanswered) == 1 and isinstance(error, pika.exceptions.ChannelClosedByBroker):
            self._fates[unanswered[0]] = _Fate.REFUSED

    def failure(self, cause: BaseException | None, patience: float) -> PublishFailed:
        report = PublishReport(
            confirmed=self._indexes(_Fate.CONFIRMED),
            unroutable=self._indexes(_Fate.UNROUTABLE),
            refused=self._indexes(_Fate.REFUSED),
            unknown=self._indexes(_Fate.UNKNOWN),
            not_sent=self._indexes(_Fate.NOT_SENT),
        )
        operation = publishing(self.outgoing.exchange, self.outgoing.routing_key)
        reason = self._reason(report, cause, operation, patience)
        text = f"{reason}{self._sizes(report)}{_summary(report, len(self._fates))}"
        return Unroutable(text, report) if report.unroutable else PublishFailed(text, report)

    def _reason(self, report: PublishReport, cause: BaseException | None, operation: Operation, patience: float) -> str:
        if report.unroutable:
            return (
                f"{operation.what}: unroutable, no queue is bound that takes the message ({self._return_reason}). "
                "Bind a queue, or publish with mandatory=False to let it be dropped"
            )
        if cause is not None:
            translated = refusal(cause, operation)
            return str(translated) if translated else f"{operation.what}: the connection was lost: {describe(cause)}"
        if report.refused:
            return f"{operation.what}: refused by the broker (nack), as by a full queue with x-overflow=reject-publish"
        return f"{operation.what}: no confirm within {patience:g} s; the broker may be under a resource alarm"

    def _sizes(self, report: PublishReport) -> str:
        if len(report.refused) != 1:
            return ""
        return f" (index {report.refused[0]}, {len(self.outgoing.bodies[report.refused[0]])} bytes)"

    def _indexes(self, fate: _Fate) -> tuple[int, ...]:
        return tuple(index for index, found in enumerate(self._fates) if found is fate)


def _summary(report: PublishReport, count: int) -> str:
    if count == 1:
        return ". It may or may not have arrived" if report.unknown else ""
    parts = [
        f"{name}: {ranges(indexes)}"
        for name, indexes in (
            ("confirmed", report.confirmed),
            ("unroutable", report.unroutable),
            ("refused", report.refused),
            ("unknown, sent but not answered", report.unknown),
            ("not sent", report.not_sent),
        )
        if indexes
    ]
    return f". Of {count} messages, by index: " + "; ".join(parts)


def ranges(indexes: Iterable[int]) -> str:
    """Rising numbers as `0-41, 57`."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
