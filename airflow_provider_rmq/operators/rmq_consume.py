"""`RMQConsumeOperator`: one batch from the head of a queue, filtered, as the task's return value."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_rmq.broker.blocking import Qos
from airflow_provider_rmq.broker.taking_verbs import check_count
from airflow_provider_rmq.compat import BaseOperator
from airflow_provider_rmq.errors import ConfigurationError, QueueMissing
from airflow_provider_rmq.hooks.rmq import RMQHook
from airflow_provider_rmq.messages.filters import FilterCallable, MessageFilter
from airflow_provider_rmq.messages.judge import MessageJudge, check_ack_unmatched
from airflow_provider_rmq.messages.misses import FilterMissState

logger = logging.getLogger("airflow.task")


class RMQConsumeOperator(BaseOperator):
    """Look at up to `max_messages` from the head of the queue, once, and return those the filter accepts.

    Accepted messages are acknowledged, all at the end, when the whole batch is judged: a task that fails, is killed or
    times out before that leaves every message in the queue. What can happen after it: a task killed between the
    acknowledgement and the storing of its return value loses the batch, and a connection lost while acknowledging lets
    the messages come a second time.

    Messages the filter rejects go back to the queue, or with `ack_unmatched` are gone for good, for every consumer of
    that queue and without dead-lettering: use it on a queue that only this task reads. A message the filter cannot be
    evaluated on always goes back.

    Args:
        queue_name: The queue. Not `queue`, which is the worker's queue in Airflow.
        rmq_conn_id: The Airflow connection.
        max_messages: The most to look at.
        filter_headers: Headers, or with `body.` paths of a JSON body, and the values they must have.
        filter_callable: `fn(properties, body_text) -> bool`, or its import path `"package.module:function"`.
        qos: `prefetch_count`: deliveries in flight at a time; the batch goes on beyond it.
        ack_unmatched: Acknowledge what the filter rejects.
        stream_offset: For a stream queue, which keeps its messages: `first`, `last`, `next` or a number.

    Returns:
        A list of dicts body, headers, routing_key, exchange; empty when the queue is empty or missing.
    """

    template_fields: Sequence[str] = ("queue_name",)
    ui_color = "#ff6600"

    def __init__(
        self,
        *,
        queue_name: str,
        rmq_conn_id: str = "rmq_default",
        max_messages: int = 100,
        filter_headers: Mapping[str, Any] | None = None,
        filter_callable: FilterCallable | str | None = None,
        qos: Mapping[str, Any] | None = None,
        ack_unmatched: bool = False,
        stream_offset: str | int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not queue_name:
            raise ConfigurationError(f"queue_name must be the name of a queue, not {queue_name!r}")
        self.queue_name = queue_name
        self.rmq_conn_id = rmq_conn_id
        self.max_messages = check_count("max_messages", max_messages)
        self.filter_headers = filter_headers
        self.filter_callable = filter_callable
        self.qos = qos
        self.ack_unmatched = check_ack_unmatched(ack_unmatched)
        self.stream_offset = stream_offset
        Qos.of(qos)
        self._filter()

    def execute(self, context: Any) -> list[dict[str, Any]]:
        """Take the batch."""
        misses = FilterMissState(self.queue_name, logger, self.ack_unmatched)
        judge = MessageJudge(message_filter=self._filter(), misses=misses)
        with RMQHook(self.rmq_conn_id, qos=self.qos) as hook:
            try:
                found = hook.take_matches(self.queue_name, judge, self.max_messages, stream_offset=self.stream_offset)
            except QueueMissing as error:
                logger.warning("Nothing is consumed: %s", error)
                return []
        logger.info("Consumed %d message(s) from queue %s", len(found), self.queue_name)
        return found

    def _filter(self) -> MessageFilter:
        return MessageFilter(self.filter_headers, self.filter_callable)
