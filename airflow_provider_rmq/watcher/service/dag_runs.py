"""Starts DAG runs from the event loop: bounded in time, in threads, each committed before it is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow_provider_rmq import compat
from airflow_provider_rmq.utils.executor import BoundedExecutor

#: Seconds one DAG run may take to be created.
START_TIMEOUT = 30.0


class StartOutcome(Enum):
    """How starting a DAG run ended; each has its rule in `handlers`."""

    CREATED = "created"
    DUPLICATE = "duplicate"
    NOT_SERIALIZED = "Airflow holds no serialized version of it yet"
    PAUSED = "it is paused"
    INACTIVE = "Airflow does not hold it active"
    MISSING = "Airflow does not know it"


_UNAVAILABLE = {
    compat.DagState.PAUSED: StartOutcome.PAUSED,
    compat.DagState.INACTIVE: StartOutcome.INACTIVE,
    compat.DagState.MISSING: StartOutcome.MISSING,
    compat.DagState.NOT_SERIALIZED: StartOutcome.NOT_SERIALIZED,
}

_CREATION = {
    compat.RunCreation.CREATED: StartOutcome.CREATED,
    compat.RunCreation.DUPLICATE: StartOutcome.DUPLICATE,
    compat.RunCreation.DAG_NOT_FOUND: StartOutcome.NOT_SERIALIZED,
}


@dataclass(frozen=True, slots=True)
class RunStarter:
    """Creates DAG runs on a pool of threads."""

    executor: BoundedExecutor
    session: Callable[[], Any]

    async def start(self, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> StartOutcome:
        """Create a DAG run and commit it.

        Raises:
            asyncio.TimeoutError: No end within `START_TIMEOUT`; the run may exist all the same.
            Exception: Whatever Airflow or its database refuses it with.
        """
        attempt = asyncio.wrap_future(self.executor.submit(self._start, dag_id, run_id, conf))
        done, _ = await asyncio.wait({attempt}, timeout=START_TIMEOUT)
        if not done:
            attempt.add_done_callback(_retrieve)
            raise asyncio.TimeoutError(f"creating the DAG run took longer than {START_TIMEOUT:g} s")
        return attempt.result()

    def _start(self, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> StartOutcome:
        with closing(self.session()) as session:
            state = compat.dag_states(session, [dag_id])[dag_id]
        if state is not compat.DagState.READY:
            return _UNAVAILABLE[state]
        return _CREATION[compat.create_dag_run(dag_id, run_id, conf)]


def _retrieve(attempt: asyncio.Future[StartOutcome]) -> None:
    """A late end has been reported as a time-out already."""
    if not attempt.cancelled():
        attempt.exception()
