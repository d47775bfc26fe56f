"""The RMQ Watcher: starts DAGs when messages arrive.

`decorators` is for DAG authors; `process` runs the watcher, `service` is its event loop, `dagfiles` and `rows` say
what to consume, `web` and `views` show it.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Offer `rmq_trigger` here too, without importing it before it is asked for."""
    if name == "rmq_trigger":
        from airflow_provider_rmq.watcher.decorators import rmq_trigger  # noqa: PLC0415

        return rmq_trigger
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
