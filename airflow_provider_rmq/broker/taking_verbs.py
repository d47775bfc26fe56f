"""What the hook does with a queue's messages, on a `BlockingSession`: hand them out, or judge them as a batch."""

from __future__ import annotations

from typing import Any

import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

from airflow_provider_rmq.broker.batches import all_matches, first_match
from airflow_provider_rmq.broker.blocking import BlockingSession
from airflow_provider_rmq.broker.queue_facts import warn_of_limit_blocking
from airflow_provider_rmq.broker.taking import (
    QueueKind,
    Source,
    TakenBatch,
    check_stream_offset,
    consume,
    message_of,
    poll,
    queue_kind,
    read_stream,
    taking,
    window_of,
)
from airflow_provider_rmq.errors import ConfigurationError
from airflow_provider_rmq.messages.judge import MessageJudge
from airflow_provider_rmq.messages.message import Message


def check_count(parameter: str, value: object) -> int:
    """A number of messages.

    Raises:
        ConfigurationError: It is no whole number of at least 1.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigurationError(f"{parameter} must be a whole number of at least 1, not {value!r}")
    return value


class BlockingTaker:
    """Takes messages; asks each queue for its type once."""

    def __init__(self, session: BlockingSession) -> None:
        self._session = session
        self._kinds: dict[str, QueueKind] = {}

    def take(
        self,
        queue_name: str,
        max_messages: int,
        *,
        auto_ack: bool,
        inactivity_timeout: float,
        stream_offset: str | int | None,
    ) -> list[dict[str, Any]]:
        """Take messages on the session's own channel, where their delivery tags can be answered later."""
        check_count("max_messages", max_messages)
        kind = self._kind(queue_name)
        if auto_ack and kind is not QueueKind.STREAM:
            source = poll(queue_name, max_messages, auto_ack=True, inactivity_timeout=inactivity_timeout)
        else:
            source = self._consumer(queue_name, max_messages, kind, inactivity_timeout, stream_offset)
        try:
            channel = self._session.channel()
            self._leave_global_qos(channel, kind)
            found = []
            for method, properties, body in source(channel):
                message = message_of(method, properties, body, queue_name)
                found.append({"method": method, "properties": properties, "body": message.text(), "body_bytes": body})
            self._restore(channel, kind)
        except (pika.exceptions.AMQPError, OSError) as error:
            self._session.raise_translated(error, taking(queue_name))
        return found

    def take_matches(
        self,
        queue_name: str,
        judge: MessageJudge,
        max_messages: int,
        *,
        inactivity_timeout: float,
        stream_offset: str | int | None,
    ) -> list[dict[str, Any]]:
        """Judge a batch of at most `max_messages`."""
        check_count("max_messages", max_messages)
        kind = self._kind(queue_name)
        source = self._consumer(queue_name, max_messages, kind, inactivity_timeout, stream_offset)
        with TakenBatch(self._session, queue_name, source, kind=kind) as batch:
            found = all_matches(batch, judge, Message.as_xcom)
        if batch.returned:
            warn_of_limit_blocking(self._session.settings, queue_name)
        return found

    def take_first_match(self, queue_name: str, judge: MessageJudge, batch_size: int) -> dict[str, Any] | None:
        """Judge messages one by one, at most `batch_size`, until one is accepted."""
        check_count("batch_size", batch_size)
        with TakenBatch(self._session, queue_name, poll(queue_name, batch_size)) as batch:
            found = first_match(batch, judge, Message.as_xcom)
        if batch.returned:
            warn_of_limit_blocking(self._session.settings, queue_name)
        return found

    def _kind(self, queue_name: str) -> QueueKind:
        if queue_name not in self._kinds:
            self._kinds[queue_name] = queue_kind(self._session, queue_name)
        return self._kinds[queue_name]

    def _consumer(
        self,
        queue_name: str,
        limit: int,
        kind: QueueKind,
        inactivity_timeout: float,
        stream_offset: str | int | None,
    ) -> Source:
        check_stream_offset(kind, queue_name, stream_offset)
        window = window_of(self._session.qos, kind, queue_name)
        if stream_offset is not None:
            return read_stream(
                queue_name, limit, window=window, inactivity_timeout=inactivity_timeout, stream_offset=stream_offset
            )
        return consume(queue_name, limit, window=window, inactivity_timeout=inactivity_timeout)

    def _leave_global_qos(self, channel: BlockingChannel, kind: QueueKind) -> None:
        """A limit for the whole channel makes quorum and stream queues refuse every consumer on it with 540."""
        qos = self._session.qos
        if qos is not None and qos.global_qos and kind in {QueueKind.QUORUM, QueueKind.STREAM}:
            channel.basic_qos(prefetch_count=0, global_qos=True)

    def _restore(self, channel: BlockingChannel, kind: QueueKind) -> None:
        """End a stream's consumer, and give later consumers of the channel the prefetch they would have had."""
        if kind is QueueKind.STREAM:
            channel.cancel()
        prefetch = self._session.qos.prefetch_count if self._session.qos else 0
        channel.basic_qos(prefetch_count=prefetch)
