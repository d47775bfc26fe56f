"""Puts the watcher's loop together: pools of threads, connections, the scan, the consumers."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_provider_rmq import compat
from airflow_provider_rmq.broker.attachment import QueueSource
from airflow_provider_rmq.broker.consuming import Handler
from airflow_provider_rmq.broker.declaring import Declarer
from airflow_provider_rmq.broker.management import ManagementApi
from airflow_provider_rmq.broker.pool import ConnectionPool
from airflow_provider_rmq.broker.publishing import MarkerPublisher
from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.messages.filters import MessageFilter
from airflow_provider_rmq.messages.judge import MessageJudge
from airflow_provider_rmq.messages.misses import FilterMissState
from airflow_provider_rmq.utils.executor import BoundedExecutor
from airflow_provider_rmq.watcher.dagfiles.scanner import DagFolderScanner
from airflow_provider_rmq.watcher.models import WatcherSession
from airflow_provider_rmq.watcher.rows.statuses import write_subscription_statuses
from airflow_provider_rmq.watcher.service.cooldown_windows import CooldownWindows
from airflow_provider_rmq.watcher.service.dag_gate import DagGate
from airflow_provider_rmq.watcher.service.dag_runs import RunStarter
from airflow_provider_rmq.watcher.service.exchange_mode import ExchangeModeProvisioner
from airflow_provider_rmq.watcher.service.handlers.cooldown import CooldownHandler
from airflow_provider_rmq.watcher.service.handlers.fire import FireHandler
from airflow_provider_rmq.watcher.service.handlers.immediate import ImmediateHandler
from airflow_provider_rmq.watcher.service.loop import CooldownConnection, WatcherLoop
from airflow_provider_rmq.watcher.service.provisioning import Provisioner
from airflow_provider_rmq.watcher.service.reconcile import ConsumerSet
from airflow_provider_rmq.watcher.service.row_troubles import RowTroubles
from airflow_provider_rmq.watcher.service.status_writer import StatusWriter
from airflow_provider_rmq.watcher.service.steps import BlockingSteps
from airflow_provider_rmq.watcher.service.subscription_task import FIRE_WINDOW, WINDOW, SubscriptionTask
from airflow_provider_rmq.watcher.states import ConsumerEvent, Row
from airflow_provider_rmq.watcher.subscription import Consumed, FireConsumer

log = logging.getLogger(__name__)

#: Threads for the steps of a cycle.
CYCLE_WORKERS = 4
#: Threads for consumers: creating runs, looking connections up.
CONSUMER_WORKERS = 4


def build_watcher_loop() -> WatcherLoop:
    """A loop that is ready to run; call it inside the event loop that will run it."""
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it has a line for each question to the management API
    identity = f"rmq_watcher.{socket.gethostname()}.{os.getpid()}"
    cycle_pool = BoundedExecutor("rmq-watcher-cycle", CYCLE_WORKERS)
    run_pool = BoundedExecutor("rmq-watcher-runs", CONSUMER_WORKERS)
    lookup_pool = BoundedExecutor("rmq-watcher-lookup", CONSUMER_WORKERS)
    steps = BlockingSteps(cycle_pool)
    statuses = StatusWriter(partial(_write_statuses, steps))
    look_up = partial(_look_up, lookup_pool)
    pool = ConnectionPool(look_up, identity)
    troubles = RowTroubles(statuses.report)
    cooldown_conn = CooldownConnection()
    factory = _TaskFactory(
        identity=identity,
        pool=pool,
        starter=RunStarter(run_pool, WatcherSession, CONSUMER_WORKERS),
        gate=DagGate(partial(_read_dag_states, steps)),
        windows=CooldownWindows(MarkerPublisher(pool), cooldown_conn),
        troubles=troubles,
    )
    declarer = Declarer(pool)

    def forget(subscription_id: int) -> None:
        troubles.forget(subscription_id)
        statuses.forget(subscription_id)

    return WatcherLoop(
        declarations=DagFolderScanner(compat.dags_folder),
        session=WatcherSession,
        steps=steps,
        consumers=ConsumerSet(factory.make, forget),
        statuses=statuses,
        pool=pool,
        provisioner=Provisioner(declarer, ExchangeModeProvisioner(declarer, ManagementApi(look_up))),
        troubles=troubles,
        cooldown_conn=cooldown_conn,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _TaskFactory:
    """Makes the task for a consumer: its source, its handler, its way to report."""

    identity: str
    pool: ConnectionPool
    starter: RunStarter
    gate: DagGate
    windows: CooldownWindows
    troubles: RowTroubles

    def make(self, consumed: Consumed) -> SubscriptionTask:
        stop = asyncio.Event()
        if isinstance(consumed, FireConsumer):
            source = self._source(consumed.conn_id, consumed.queue_name, "fire", FIRE_WINDOW)
            handler: Handler[ConsumerEvent] = FireHandler(consumed, self.starter, self.troubles, stop)
            return self._task(consumed, source, handler, stop, FIRE_WINDOW)
        key = consumed.key
        source = self._source(key.conn_id, key.queue_name, str(consumed.id), WINDOW)
        judge = MessageJudge(
            message_filter=MessageFilter.deserialize(consumed.filter_data),
            misses=FilterMissState(key.queue_name, log, consumed.ack_unmatched),
        )
        if consumed.cooldown:
            handler = CooldownHandler(consumed, self.windows.of(key.dag_id), judge, stop)
        else:
            handler = ImmediateHandler(consumed, self.starter, judge)
        return self._task(consumed, source, handler, stop, WINDOW)

    def _source(self, conn_id: str, queue_name: str, name: str, window: int) -> QueueSource:
        return QueueSource(self.pool, conn_id, queue_name, f"{self.identity}.{name}", window)

    def _task(
        self, consumed: Consumed, source: QueueSource, handler: Handler[ConsumerEvent], stop: asyncio.Event, window: int
    ) -> SubscriptionTask:
        return SubscriptionTask(consumed, source, handler, self.gate, self.troubles.report, window=window, stop=stop)


async def _look_up(lookup_pool: BoundedExecutor, conn_id: str) -> ConnectionSettings:
    return ConnectionSettings.from_record(await lookup_pool.run(compat.airflow_connection, conn_id))


async def _write_statuses(steps: BlockingSteps, rows: Mapping[int, Row]) -> None:
    def write() -> None:
        with closing(WatcherSession()) as session:
            write_subscription_statuses(session, rows)

    await steps.run("status rows", write)


async def _read_dag_states(steps: BlockingSteps, dag_ids: Iterable[str]) -> Mapping[str, compat.DagState]:
    asked = list(dag_ids)

    def read() -> dict[str, Any]:
        with closing(WatcherSession()) as session:
            return compat.dag_states(session, asked)

    return await steps.run("dag states", read)
