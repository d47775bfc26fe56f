"""Holds a consumer back until Airflow knows its DAG.

After a start the DAG processor needs its time; a delivery taken meanwhile could only be given back, and each time
costs a quorum queue one of its redeliveries. One query a second asks for all DAGs that are waited for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_rmq.compat import DagState
from airflow_provider_rmq.errors import describe
from airflow_provider_rmq.watcher.service.tasks import create_guarded_task

log = logging.getLogger(__name__)

#: Seconds between two looks.
POLL_INTERVAL = 1.0
#: Seconds after the start of this process from which on nothing is held back any more.
HOLD_LIMIT = 1500.0

#: A paused DAG is known: its messages have a rule of their own.
_ADMITTED = frozenset({DagState.READY, DagState.PAUSED})

ReadStates = Callable[[Iterable[str]], Awaitable[Mapping[str, DagState]]]


@dataclass(slots=True)
class DagGate:
    """Opens for a DAG once it has a serialized version, and then stays open."""

    read_states: ReadStates
    started_at: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    _admitted: set[str] = field(default_factory=set)
    _waiting: set[str] = field(default_factory=set)
    _reasons: dict[str, str] = field(default_factory=dict)
    _round_over: asyncio.Event = field(default_factory=asyncio.Event)
    _poller: asyncio.Task[None] | None = None

    async def admit(self, dag_id: str, report: Callable[[str], None]) -> None:
        """Return once the DAG may be consumed for; `report` hears after each look why not yet."""
        while not self._is_open(dag_id):
            self._waiting.add(dag_id)
            if self._poller is None or self._poller.done():
                self._poller = create_guarded_task(self._poll(), name="dag gate")
            await self._round_over.wait()
            if not self._is_open(dag_id):
                report(self._reasons.get(dag_id, f"DAG {dag_id}: Airflow has not been asked yet"))

    def _is_open(self, dag_id: str) -> bool:
        return dag_id in self._admitted or asyncio.get_running_loop().time() - self.started_at > HOLD_LIMIT

    async def _poll(self) -> None:
        while self._waiting:
            asked, self._waiting = self._waiting, set()
            await self._look(asked)
            self._round_over.set()
            self._round_over = asyncio.Event()
            await asyncio.sleep(POLL_INTERVAL)

    async def _look(self, asked: set[str]) -> None:
        try:
            states = await self.read_states(asked)
        except Exception as error:  # noqa: BLE001 - the reason stands on the rows; the next look is a second away
            self._reasons.update(dict.fromkeys(asked, f"Airflow's database cannot be asked: {describe(error)}"))
            return
        for dag_id, state in states.items():
            if state in _ADMITTED:
                self._admitted.add(dag_id)
            else:
                self._reasons[dag_id] = f"waiting until Airflow can start DAG {dag_id}: it is {state.value}"
