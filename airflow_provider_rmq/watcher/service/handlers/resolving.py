"""A filter that names a function: found before its first message is judged, and shown in the row when it is not there.

The function is imported in a thread, because a module of a DAG folder may take its time; an import that failed is tried
again with the next delivery, after a growing pause, so that a corrected file needs no restart.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from airflow_provider_rmq.broker.consuming import Disposition, Handler
from airflow_provider_rmq.errors import describe
from airflow_provider_rmq.messages.import_paths import resolve_import_path
from airflow_provider_rmq.messages.message import Message
from airflow_provider_rmq.messages.settlement import Settlement
from airflow_provider_rmq.watcher.service.handlers.starting import GrowingPause
from airflow_provider_rmq.watcher.states import ConsumerEvent, StartFailed


@dataclass(slots=True)
class ResolvingHandler:
    """Hands messages to `handler` once the function at `path` is there; until then they go back."""

    path: str
    handler: Handler[ConsumerEvent]
    pause: GrowingPause = field(default_factory=GrowingPause)
    _is_resolved: bool = False

    async def __call__(self, message: Message) -> Disposition[ConsumerEvent]:
        """Decide about one message; never raises."""
        if not self._is_resolved:
            try:
                await asyncio.to_thread(resolve_import_path, self.path)
            except Exception as error:  # noqa: BLE001 - a module of a DAG author may raise anything
                reason = f"filter_callable {self.path} cannot be resolved in the watcher: {describe(error)}"
                pause = self.pause.after_failure()
                return Disposition(settlement=Settlement.REQUEUE, event=StartFailed(reason), pause=pause)
            self._is_resolved = True
        return await self.handler(message)
