"""`RMQQueueManagementOperator`: declares, deletes, purges, binds; the actions are one table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_rmq.broker.topology_arguments import queue_arguments
from airflow_provider_rmq.compat import BaseOperator
from airflow_provider_rmq.errors import ConfigurationError
from airflow_provider_rmq.hooks.rmq import RMQHook

logger = logging.getLogger("airflow.task")


class RMQQueueManagementOperator(BaseOperator):
    """Carry out one action on a queue or an exchange.

    Args:
        action: One of `VALID_ACTIONS`.
        rmq_conn_id: The Airflow connection.
        queue_name: For the actions on queues.
        durable: The queue or exchange survives a restart of the broker.
        exclusive: The queue belongs to this task's connection, and is gone when the task ends.
        auto_delete: It is deleted when it is no longer used.
        exchange_name: For the actions on exchanges, and what a queue is bound to.
        exchange_type: `direct`, `fanout`, `topic`, `headers`, or a plugin's `x-` type.
        internal: Only other exchanges publish to the exchange.
        if_unused: Delete only what has no consumers or bindings.
        if_empty: Delete only a queue without messages.
        routing_key: Of the binding.
        arguments: `x-` arguments of the queue, the exchange or the binding.
        source_exchange: The exchange another one is bound to.
        queue_type: `classic`, `quorum` or `stream`, in place of the argument `x-queue-type`.

    Returns:
        For `declare_queue` a dict queue, message_count; otherwise None.
    """

    template_fields: Sequence[str] = ("queue_name", "exchange_name", "routing_key", "arguments")
    ui_color = "#ff6600"

    def __init__(
        self,
        *,
        action: str,
        rmq_conn_id: str = "rmq_default",
        queue_name: str | None = None,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        exchange_name: str | None = None,
        exchange_type: str = "direct",
        internal: bool = False,
        if_unused: bool = False,
        if_empty: bool = False,
        routing_key: str = "",
        arguments: Mapping[str, Any] | None = None,
        source_exchange: str | None = None,
        queue_type: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.action = action
        self.rmq_conn_id = rmq_conn_id
        self.queue_name = queue_name
        self.durable = durable
        self.exclusive = exclusive
        self.auto_delete = auto_delete
        self.exchange_name = exchange_name
        self.exchange_type = exchange_type
        self.internal = internal
        self.if_unused = if_unused
        self.if_empty = if_empty
        self.routing_key = routing_key
        self.arguments = arguments
        self.source_exchange = source_exchange
        self.queue_type = queue_type
        self._check()

    def execute(self, context: Any) -> dict[str, Any] | None:
        """Carry the action out."""
        with RMQHook(self.rmq_conn_id) as hook:
            result = _ACTIONS[self.action].carry_out(hook, self)
        logger.info("%s is done", self.action)
        return result

    def _check(self) -> None:
        action = _ACTIONS.get(self.action)
        if action is None:
            raise ConfigurationError(f"Invalid action {self.action!r}; valid are {', '.join(VALID_ACTIONS)}")
        missing = [name for name in action.needs if not getattr(self, name)]
        if missing:
            raise ConfigurationError(f"action {self.action!r} needs {', '.join(missing)}")
        if self.queue_type is not None and self.action != "declare_queue":
            raise ConfigurationError(f"queue_type is for action 'declare_queue', not {self.action!r}")
        if isinstance(self.arguments, (Mapping, type(None))):  # XComArg or a mapped value is known at run time only
            queue_arguments(
                self.arguments,
                self.queue_type,
                durable=self.durable,
                exclusive=self.exclusive,
                auto_delete=self.auto_delete,
            )


def _declare_queue(hook: RMQHook, task: RMQQueueManagementOperator) -> dict[str, Any]:
    if task.exclusive:
        logger.warning(
            "Queue %s is exclusive to the connection of this task: it is deleted when the task ends", task.queue_name
        )
    frame = hook.queue_declare(
        task.queue_name or "",
        durable=task.durable,
        exclusive=task.exclusive,
        auto_delete=task.auto_delete,
        arguments=task.arguments,
        queue_type=task.queue_type,
    )
    return {"queue": frame.method.queue, "message_count": frame.method.message_count}


def _delete_queue(hook: RMQHook, task: RMQQueueManagementOperator) -> None:
    hook.queue_delete(task.queue_name or "", if_unused=task.if_unused, if_empty=task.if_empty)


def _purge_queue(hook: RMQHook, task: RMQQueueManagementOperator) -> None:
    hook.queue_purge(task.queue_name or "")


def _bind_queue(hook: RMQHook, task: RMQQueueManagementOperator) -> None:
    hook.queue_bind(task.queue_name or "", task.exchange_name or "", task.routing_key, task.arguments)


def _unbind_queue(hook: RMQHook, task: RMQQueueManagementOperator) -> None:
    hook.queue_unbind(task.queue_name or "", task.exchange_name or "", task.routing_key, task.arguments)


def _declare_exchange(hook: RMQHook, task: RMQQueueManagementOperator) -> None:
    hook.exchange_declare(
        task.exchange_name or "",
        task.exchange_type,
        durable=task.durable,
        auto_delete=task.auto_delete,
        internal=task.internal,
        arguments=task.arguments,
    )


def _delete_exchange(hook: RMQHook, task: RMQQueueManagementOperator) -> None:
    hook.exchange_delete(task.exchange_name or "", if_unused=task.if_unused)


def _bind_exchange(hook: RMQHook, task: RMQQueueManagementOperator) -> None:
    hook.exchange_bind(task.exchange_name or "", task.source_exchange or "", task.routing_key, task.arguments)


def _unbind_exchange(hook: RMQHook, task: RMQQueueManagementOperator) -> None:
    hook.exchange_unbind(task.exchange_name or "", task.source_exchange or "", task.routing_key, task.arguments)


@dataclass(frozen=True, slots=True)
class _Action:
    """What an action needs and what it does."""

    needs: tuple[str, ...]
    carry_out: Callable[[RMQHook, RMQQueueManagementOperator], dict[str, Any] | None]


_ACTIONS = {
    "declare_queue": _Action(("queue_name",), _declare_queue),
    "delete_queue": _Action(("queue_name",), _delete_queue),
    "purge_queue": _Action(("queue_name",), _purge_queue),
    "bind_queue": _Action(("queue_name", "exchange_name"), _bind_queue),
    "unbind_queue": _Action(("queue_name", "exchange_name"), _unbind_queue),
    "declare_exchange": _Action(("exchange_name",), _declare_exchange),
    "delete_exchange": _Action(("exchange_name",), _delete_exchange),
    "bind_exchange": _Action(("exchange_name", "source_exchange"), _bind_exchange),
    "unbind_exchange": _Action(("exchange_name", "source_exchange"), _unbind_exchange),
}

#: The actions, in the order of the documentation.
VALID_ACTIONS = tuple(_ACTIONS)
