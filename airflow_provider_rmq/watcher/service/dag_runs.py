"""Starts DAG runs from the event loop: bounded in time, in threads, each committed before it is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from airflow_provider_rmq import compat
from airflow_provider_rmq.broker.window import wait_until_set
from airflow_provider_rmq.errors import DagRunRefused, describe
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


@dataclass(slots=True)
class RunStarter:
    """Creates DAG runs on a pool of threads, as many at a time as the pool has threads.

    A queue with a backlog offers more than the pool can do; the rest waits here, and waiting is an error only when
    nothing moves.
    """

    executor: BoundedExecutor
    session: Callable[[], Any]
    concurrency: int
    _busy: int = 0
    _ended: int = 0
    _slot_freed: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> StartOutcome:
        """Create a DAG run and commit it.

        Raises:
            asyncio.TimeoutError: No end within `START_TIMEOUT`; the run may exist all the same.
            DagRunRefused: The DAG's params do not take the conf.
            Exception: Whatever Airflow or its database refuses it with.
        """
        await self._take_slot()
        try:
            attempt = asyncio.wrap_future(self.executor.submit(self._start, dag_id, run_id, conf))
        except BaseException:
            self._free_slot()
            raise
        attempt.add_done_callback(lambda _: self._free_slot())  # a thread that hangs keeps its slot
        done, _ = await asyncio.wait({attempt}, timeout=START_TIMEOUT)
        if not done:
            attempt.add_done_callback(_retrieve)
            raise asyncio.TimeoutError(f"creating the DAG run took longer than {START_TIMEOUT:g} s")
        return attempt.result()

    async def _take_slot(self) -> None:
        while self._busy >= self.concurrency:
            ended = self._ended
            self._slot_freed.clear()
            if not await wait_until_set(self._slot_freed, START_TIMEOUT) and self._ended == ended:
                raise asyncio.TimeoutError(f"no DAG run could be created for {START_TIMEOUT:g} s")
        self._busy += 1

    def _free_slot(self) -> None:
        self._busy -= 1
        self._ended += 1
        self._slot_freed.set()

    def _start(self, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> StartOutcome:
        with closing(self.session()) as session:
            state = compat.dag_states(session, [dag_id])[dag_id]
        if state is not compat.DagState.READY:
            return _UNAVAILABLE[state]
        try:
            return _CREATION[compat.create_dag_run(dag_id, run_id, conf)]
        except compat.ParamValidationError as error:
            raise DagRunRefused(f"DAG {dag_id} does not take the message as its conf: {describe(error)}") from error


def _retrieve(attempt: asyncio.Future[StartOutcome]) -> None:
    """A late end has been reported as a time-out already."""
    if not attempt.cancelled():
        attempt.exception()
