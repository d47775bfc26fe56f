"""What Airflow loads, in every one of its processes: light, and nothing happens at import.

The listener starts the watcher in the Scheduler. The page is built only in the process that serves pages, when it
asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_provider_rmq import compat
from airflow_provider_rmq.watcher.listener import RMQWatcherListener


class _BuiltOnFirstUse:
    """A class attribute that is made when it is first read."""

    def __init__(self, build: Callable[[], list[Any]]) -> None:
        self._build = build
        self._built: list[Any] | None = None

    def __get__(self, instance: object, owner: type) -> list[Any]:
        if self._built is None:
            self._built = self._build()
        return self._built


def _views() -> list[Any]:
    from airflow_provider_rmq.watcher.views import appbuilder_views  # noqa: PLC0415 - only where pages are served

    return appbuilder_views()


def _blueprints() -> list[Any]:
    from airflow_provider_rmq.watcher.views import flask_blueprints  # noqa: PLC0415 - only where pages are served

    return flask_blueprints()


class RMQWatcherPlugin(compat.AirflowPlugin):
    """The plugin `rmq_watcher`."""

    name = "rmq_watcher"
    listeners = [RMQWatcherListener()]  # noqa: RUF012 - Airflow reads a class attribute
    appbuilder_views = _BuiltOnFirstUse(_views)
    flask_blueprints = _BuiltOnFirstUse(_blueprints)
