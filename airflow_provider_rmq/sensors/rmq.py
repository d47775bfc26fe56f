"""`RMQSensor`: waits for a message that matches, on a worker or, deferred, in the triggerer (`triggers.rmq`)."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow_provider_rmq.broker.taking_verbs import check_count
from airflow_provider_rmq.compat import AirflowSkipException, BaseSensorOperator, PokeReturnValue, default_deferrable
from airflow_provider_rmq.errors import ConfigurationError, QueueMissing
from airflow_provider_rmq.hooks.rmq import RMQHook
from airflow_provider_rmq.messages.filters import FilterCallable, MessageFilter
from airflow_provider_rmq.messages.import_paths import import_path_of
from airflow_provider_rmq.messages.judge import MessageJudge, check_ack_unmatched
from airflow_provider_rmq.messages.misses import FilterMissState
from airflow_provider_rmq.triggers.rmq import RMQTrigger

logger = logging.getLogger("airflow.task")

#: How a trigger gets its messages; the other two values of `mode` are the base sensor's.
TRIGGER_MODES = ("pull", "push")
POKE_MODES = ("poke", "reschedule")


class RMQSensor(BaseSensorOperator):
    """Wait for a message the filter accepts; acknowledge it and return it.

    A poke looks at the messages from the head of the queue one by one, no further than the first that matches and no
    more than `poke_batch_size`. What it looked at and did not acknowledge goes back when it ends, so each poke costs
    such a message one delivery: a quorum queue of RabbitMQ 4.0 or later drops or dead-letters it after 20 of them.

    Args:
        queue_name: The queue. Not `queue`, which is the worker's queue in Airflow.
        rmq_conn_id: The Airflow connection.
        filter_headers: Headers, or with `body.` paths of a JSON body, and the values they must have.
        filter_callable: `fn(properties, body_text) -> bool`, or its import path `"package.module:function"`. A deferred
            sensor takes the path, or a module-level function of a module the triggerer can import.
        deferrable: Wait in the triggerer, without a worker slot; None is `[operators] default_deferrable`.
        poke_batch_size: The most messages to look at in one poke.
        mode: `poke` or `reschedule` as in Airflow's own sensors; `pull` or `push` choose how the message is waited for
            when the sensor is deferred, and poke otherwise.
        message_wait_timeout: Seconds to wait in push mode before the task is skipped; may be a template.
        ack_unmatched: Acknowledge what the filter rejects: it is gone, for every consumer of the queue.
    """

    template_fields: Sequence[str] = ("queue_name", "message_wait_timeout")
    ui_color = "#ff6600"

    def __init__(
        self,
        *,
        queue_name: str,
        rmq_conn_id: str = "rmq_default",
        filter_headers: Mapping[str, Any] | None = None,
        filter_callable: FilterCallable | str | None = None,
        deferrable: bool | None = None,
        poke_batch_size: int = 100,
        mode: str = "pull",
        message_wait_timeout: float | str | None = None,
        ack_unmatched: bool = False,
        **kwargs: Any,
    ) -> None:
        self.trigger_mode, poke_mode = _modes(mode)
        super().__init__(mode=poke_mode, **kwargs)
        if not queue_name:
            raise ConfigurationError(f"queue_name must be the name of a queue, not {queue_name!r}")
        if message_wait_timeout is not None and self.trigger_mode != "push":
            raise ConfigurationError(f"message_wait_timeout is for push mode only, not for mode={mode!r}")
        self.queue_name = queue_name
        self.rmq_conn_id = rmq_conn_id
        self.filter_headers = filter_headers
        self.filter_callable = filter_callable
        self.deferrable = self._is_deferrable(deferrable)
        self.poke_batch_size = check_count("poke_batch_size", poke_batch_size)
        self.message_wait_timeout = message_wait_timeout
        self.ack_unmatched = check_ack_unmatched(ack_unmatched)
        self._misses: FilterMissState | None = None
        self._filter()

    def execute(self, context: Any) -> Any:
        """Wait here, or defer to the trigger."""
        if not self.deferrable:
            return super().execute(context)
        trigger = RMQTrigger(
            self.rmq_conn_id,
            self.queue_name,
            self._deferred_filter().serialize(),
            mode=self.trigger_mode,
            message_wait_timeout=_seconds(self.message_wait_timeout),
            ack_unmatched=self.ack_unmatched,
        )
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout))

    def execute_complete(self, context: Any, event: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the trigger's message; a time-out skips the task.

        Raises:
            AirflowSkipException: No message came within `message_wait_timeout`.
            RuntimeError: The trigger gave up.
        """
        event = event or {}
        if event.get("status") == "success":
            message: dict[str, Any] = event["message"]
            return message
        if event.get("status") == "timeout":
            raise AirflowSkipException(
                f"No message came to queue {self.queue_name!r} within {self.message_wait_timeout} s"
            )
        raise RuntimeError(event.get("error") or "unknown error")

    def poke(self, context: Any) -> PokeReturnValue:
        """Look at one batch; a queue that does not exist has no message yet."""
        if self._misses is None:  # lives as long as this object, so that misses add up from poke to poke
            self._misses = FilterMissState(self.queue_name, logger, self.ack_unmatched)
        judge = MessageJudge(message_filter=self._filter(), misses=self._misses)
        with RMQHook(self.rmq_conn_id) as hook:
            try:
                found = hook.take_first_match(self.queue_name, judge, self.poke_batch_size)
            except QueueMissing as error:
                logger.info("No message yet: %s", error)
                found = None
        return PokeReturnValue(is_done=found is not None, xcom_value=found)

    def _is_deferrable(self, deferrable: bool | None) -> bool:
        """Airflow's default is a wish: a callable that cannot reach the triggerer keeps the sensor on its worker."""
        if deferrable is not None:
            if not isinstance(deferrable, bool):
                raise ConfigurationError(f"deferrable must be a bool or None, not {deferrable!r}")
            if deferrable:
                self._deferred_filter()
            return deferrable
        if not default_deferrable():
            return False
        try:
            self._deferred_filter()
        except ConfigurationError as error:
            logger.info("This sensor is not deferred by default: %s", error)
            return False
        return True

    def _deferred_filter(self) -> MessageFilter:
        """The filter in the form that reaches the triggerer.

        Raises:
            ConfigurationError: Callable-based filters need an import path there, and this one has none.
        """
        accepts = self.filter_callable
        if callable(accepts):
            accepts = import_path_of("callable-based filters are deferred by path, and filter_callable", accepts)
        return MessageFilter(self.filter_headers, accepts)

    def _filter(self) -> MessageFilter:
        return MessageFilter(self.filter_headers, self.filter_callable)


def _modes(mode: object) -> tuple[str, str]:
    """The trigger's mode and the base sensor's that one parameter stands for."""
    if mode in TRIGGER_MODES:
        return str(mode), "poke"
    if mode in POKE_MODES:
        return "pull", str(mode)
    raise ConfigurationError(
        "mode must be pull or push (how a deferred sensor waits), poke or reschedule (how it waits otherwise), "
        f"not {mode!r}"
    )


def _seconds(value: float | str | None) -> float | None:
    """A rendered `message_wait_timeout`; an empty rendering is no limit."""
    if value is None or (isinstance(value, str) and value in {"", "None"}):
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not seconds >= 0:
        raise ConfigurationError(f"message_wait_timeout must be a number of seconds of at least 0, not {value!r}")
    return seconds
