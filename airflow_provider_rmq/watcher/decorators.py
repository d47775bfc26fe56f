"""`@rmq_trigger`: declares that messages of a queue start the decorated DAG.

The decorator checks its arguments and leaves the DAG as it is; the watcher finds the declaration by reading the file
(`dagfiles`). Imports nothing of Airflow, so that a DAG file stays as light as it was.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from airflow_provider_rmq.watcher.subscription_builder import DEFAULT_CONN_ID, build_subscriptions

D = TypeVar("D")

#: Attribute of the DAG object that lists its subscriptions as dictionaries.
SUBSCRIPTIONS_ATTRIBUTE = "_rmq_subscriptions"


def rmq_trigger(queue: str, conn_id: str = DEFAULT_CONN_ID) -> Callable[[D], D]:
    """Start the DAG whenever a message arrives in a queue.

    The outermost decorator, above `@dag(...)`; or called with a DAG object: `rmq_trigger(queue="orders")(dag)`.

    Args:
        queue: Name of an existing queue, at most 255 bytes. A literal: the watcher reads the file, it never runs it.
        conn_id: The Airflow connection of the broker; a literal too.

    Returns:
        A decorator that returns the DAG, or the DAG factory, unchanged in behaviour.

    Raises:
        ConfigurationError: A wrong argument; raised as soon as the DAG object exists. Also a `ValueError`.
        TypeError: The decorated object is neither a DAG nor a function that returns one.
    """

    def decorate(target: D) -> D:
        if _is_dag(target):
            _attach(target, queue, conn_id)
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
            _attach(dag, queue, conn_id)
            return dag

        return factory  # type: ignore[return-value]  # stands in for the factory it wraps

    return decorate


def _is_dag(candidate: object) -> bool:
    """Whether this is a DAG object: by its class's name, because importing Airflow's DAG here would cost its import.

    A TaskFlow factory that `@dag` produced is a plain function.
    """
    return any(cls.__name__ == "DAG" for cls in type(candidate).__mro__)


def _attach(dag: Any, queue: str, conn_id: str) -> None:
    declared = build_subscriptions(dag_id=dag.dag_id, queue=queue, conn_id=conn_id)
    known: list[dict[str, Any]] = getattr(dag, SUBSCRIPTIONS_ATTRIBUTE, [])
    added = [{"queue_name": item.key.queue_name, "conn_id": item.key.conn_id} for item in declared]
    setattr(dag, SUBSCRIPTIONS_ATTRIBUTE, [*known, *added])
