"""`@rmq_trigger`: declares that messages of a queue start the decorated DAG.

The decorator checks its arguments and leaves the DAG as it is; the watcher finds the declaration by reading the file
(`dagfiles`). Imports nothing of Airflow, so that a DAG file stays as light as it was.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from airflow_provider_rmq.errors import ConfigurationError
from airflow_provider_rmq.watcher.subscription_builder import (
    ANY_STATUS,
    DEFAULT_CONN_ID,
    build_subscriptions,
    has_exchange_conflict,
)

D = TypeVar("D")

#: Attribute of the DAG object that lists its subscriptions as dictionaries.
SUBSCRIPTIONS_ATTRIBUTE = "_rmq_subscriptions"


def rmq_trigger(
    queue: str | None = None,
    queues: list[str] | None = None,
    conn_id: str = DEFAULT_CONN_ID,
    filter_data: Mapping[str, Any] | None = None,
    cooldown: int = 0,
    *,
    exchange: str | None = None,
    routing_keys: list[str] | None = None,
    routing_key_ids: list[str] | None = None,
    routing_key_status: str | list[str] = ANY_STATUS,
    ack_unmatched: bool = False,
    keep_payload: bool = False,
    mirror: bool = True,
    on_filter_error: str = "requeue",
) -> Callable[[D], D]:
    """Start the DAG when messages arrive.

    The outermost decorator, above `@dag(...)`; or called with a DAG object: `rmq_trigger(queue="orders")(dag)`. Every
    argument is a literal or a module constant: the watcher reads the file, it never runs it. Exactly one of `queue`,
    `queues` and `exchange` is given.

    Args:
        queue: Name of an existing queue, at most 255 bytes.
        queues: Several of them; a message in any starts the DAG.
        conn_id: The Airflow connection of the broker.
        filter_data: `{"filter_headers": {...}}` as for `MessageFilter`; None lets every message start the DAG.
        cooldown: Seconds in which further messages start no further run; 0 starts one with each message.
        exchange: A topic exchange, in place of queues of your own.
        routing_keys: What is wanted of the exchange.
        routing_key_ids: Combined with `routing_key_status` to further keys, `id.status`.
        routing_key_status: One status or several; `*` is any.
        ack_unmatched: Acknowledge, and so delete, what the filter rejects, instead of returning it to its queue.
        keep_payload: With `cooldown`: body and headers of the first message in the window arrive in the DAG's conf.
        mirror: With `exchange`: keep everything that passes it for eight hours in `{exchange}.log`.
        on_filter_error: What becomes of a message on which the filter cannot be evaluated: `"requeue"`, it goes back
            and comes again until its TTL ends it; `"dead_letter"`, the same 20 times, then it is rejected without
            requeue, so that the queue's dead-letter exchange gets it, or nobody where there is none.

    Returns:
        A decorator that returns the DAG, or the DAG factory, unchanged in behaviour.

    Raises:
        ConfigurationError: A wrong argument; raised as soon as the DAG object exists. Also a `ValueError`.
        TypeError: The decorated object is neither a DAG nor a function that returns one.
    """
    arguments = {
        "queue": queue,
        "queues": queues,
        "conn_id": conn_id,
        "filter_data": filter_data,
        "cooldown": cooldown,
        "exchange": exchange,
        "routing_keys": routing_keys,
        "routing_key_ids": routing_key_ids,
        "routing_key_status": routing_key_status,
        "ack_unmatched": ack_unmatched,
        "keep_payload": keep_payload,
        "mirror": mirror,
        "on_filter_error": on_filter_error,
    }

    def decorate(target: D) -> D:
        if _is_dag(target):
            _attach(target, arguments)
            return target
        if not callable(target):
            raise TypeError(f"rmq_trigger decorates a DAG instance or a callable, not {type(target).__name__}")

        @functools.wraps(target)
        def factory(*args: Any, **kwargs: Any) -> Any:
            dag = target(*args, **kwargs)
            if not _is_dag(dag):
                raise TypeError(
                    f"rmq_trigger: {getattr(target, '__name__', target)!r} did not produce a DAG but "
                    f"{type(dag).__name__}; rmq_trigger belongs above @dag(...)"
                )
            _attach(dag, arguments)
            return dag

        return factory  # type: ignore[return-value]  # stands in for the factory it wraps

    return decorate


def _is_dag(candidate: object) -> bool:
    """Whether this is a DAG object: by its class's name, because importing Airflow's DAG here would cost its import.

    A TaskFlow factory that `@dag` produced is a plain function.
    """
    return any(cls.__name__ == "DAG" for cls in type(candidate).__mro__)


def _attach(dag: Any, arguments: Mapping[str, Any]) -> None:
    added = build_subscriptions(dag_id=dag.dag_id, **arguments)
    known: list[dict[str, Any]] = getattr(dag, SUBSCRIPTIONS_ATTRIBUTE, [])
    if has_exchange_conflict(known, added):
        raise ConfigurationError(
            f"DAG {dag.dag_id}: a second exchange is not supported, both would share one queue; give one decorator all "
            "routing keys, or bind queues of your own and use queues="
        )
    setattr(dag, SUBSCRIPTIONS_ATTRIBUTE, [*known, *added])
