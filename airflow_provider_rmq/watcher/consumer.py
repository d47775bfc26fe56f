"""Puts the watcher's loop together: pools of threads, connections, the scan, the consumers."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from airflow_provider_rmq import compat
from airflow_provider_rmq.broker.attachment import QueueSource
from airflow_provider_rmq.broker.consumer_listing import ConsumerListing, list_consumers
from airflow_provider_rmq.broker.consuming import Handler
from airflow_provider_rmq.broker.declaring import Declarer
from airflow_provider_rmq.broker.management import ManagementApi
from airflow_provider_rmq.broker.pool import ConnectionPool, Role
from airflow_provider_rmq.broker.probes import require_answer
from airflow_provider_rmq.broker.publishing import MarkerPublisher
from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.errors import ManagementUnavailable, describe
from airflow_provider_rmq.messages.filters import MessageFilter
from airflow_provider_rmq.messages.judge import MessageJudge
from airflow_provider_rmq.messages.misses import FilterMissState
from airflow_provider_rmq.messages.turns import Turns
from airflow_provider_rmq.utils.executor import BoundedExecutor
from airflow_provider_rmq.watcher.dagfiles.file_reader import FileReader
from airflow_provider_rmq.watcher.dagfiles.scanner import DagFolderScanner
from airflow_provider_rmq.watcher.models import WatcherSession
from airflow_provider_rmq.watcher.rows.restarts import WorkerStart
from airflow_provider_rmq.watcher.rows.statuses import write_subscription_statuses
from airflow_provider_rmq.watcher.service.connection_lookups import ConnectionLookups
from airflow_provider_rmq.watcher.service.cooldown_windows import CooldownWindows
from airflow_provider_rmq.watcher.service.dag_gate import DagGate
from airflow_provider_rmq.watcher.service.dag_runs import RunStarter
from airflow_provider_rmq.watcher.service.exchange_mode import ExchangeModeProvisioner
from airflow_provider_rmq.watcher.service.handlers.cooldown import CooldownHandler
from airflow_provider_rmq.watcher.service.handlers.fire import FireHandler
from airflow_provider_rmq.watcher.service.handlers.immediate import ImmediateHandler
from airflow_provider_rmq.watcher.service.handlers.resolving import ResolvingHandler
from airflow_provider_rmq.watcher.service.loop import CooldownConnection, Memory, WatcherLoop
from airflow_provider_rmq.watcher.service.provisioning import Provisioner
from airflow_provider_rmq.watcher.service.reconcile import ConsumerSet
from airflow_provider_rmq.watcher.service.recovery import Probes, Recovery
from airflow_provider_rmq.watcher.service.row_troubles import RowTroubles
from airflow_provider_rmq.watcher.service.run_rules import RunRules, read_run_rules
from airflow_provider_rmq.watcher.service.status_writer import StatusWriter
from airflow_provider_rmq.watcher.service.steps import BlockingSteps
from airflow_provider_rmq.watcher.service.subscription_task import FIRE_WINDOW, WINDOW, SubscriptionTask
from airflow_provider_rmq.watcher.states import ConsumerEvent, Row
from airflow_provider_rmq.watcher.subscription import Consumed, FireConsumer, OnFilterError

log = logging.getLogger(__name__)

#: Threads for the steps of a cycle.
CYCLE_WORKERS = 4
#: Threads for consumers: creating runs, looking connections up.
CONSUMER_WORKERS = 4


@dataclass(frozen=True, slots=True)
class _Threads:
    """What outlives an event loop: a call that is stuck in a thread is still known to the loop that comes next."""

    steps: BlockingSteps
    runs: BoundedExecutor
    lookups: ConnectionLookups


@cache
def _threads() -> _Threads:
    return _Threads(
        BlockingSteps(BoundedExecutor("rmq-watcher-cycle", CYCLE_WORKERS)),
        BoundedExecutor("rmq-watcher-runs", CONSUMER_WORKERS),
        ConnectionLookups(
            BoundedExecutor("rmq-watcher-lookup", CONSUMER_WORKERS),
            lambda conn_id: ConnectionSettings.from_record(compat.airflow_connection(conn_id)),
        ),
    )


@cache
def _run_rules() -> RunRules:
    return read_run_rules(compat.config_option)


@cache
def _memory() -> Memory:
    scanner = DagFolderScanner(compat.dags_folder, compat.unignored_files, FileReader(compat.may_hold_dag))
    return Memory(declarations=scanner)


def build_watcher_loop(
    worker_start: WorkerStart | None = None, orphaned: Callable[[], str | None] = lambda: None
) -> WatcherLoop:
    """A loop that is ready to run; call it inside the event loop that will run it.

    Args:
        worker_start: What the rows are to say of this process's start.
        orphaned: Says what has happened to the parent process; None while it is there.
    """
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it has a line for each question to the management API
    identity = f"rmq_watcher.{socket.gethostname()}.{os.getpid()}"
    threads = _threads()
    steps, look_up = threads.steps, threads.lookups.look_up
    statuses = StatusWriter(partial(_write_statuses, steps))
    pool = ConnectionPool(look_up, identity)
    troubles = RowTroubles(statuses.report)
    cooldown_conn = CooldownConnection()
    factory = _TaskFactory(
        identity=identity,
        pool=pool,
        starter=RunStarter(threads.runs, WatcherSession, CONSUMER_WORKERS),
        gate=DagGate(partial(_read_dag_states, steps)),
        windows=CooldownWindows(MarkerPublisher(pool), cooldown_conn),
        troubles=troubles,
        rules=_run_rules(),
    )
    declarer = Declarer(pool)

    def forget(subscription_id: int) -> None:
        troubles.forget(subscription_id)
        statuses.forget(subscription_id)

    consumers = ConsumerSet(factory.make, forget)
    probes = Probes(
        list_consumers=partial(_list_consumers, look_up),
        require_answer=partial(require_answer, pool),
        is_connected=lambda conn_id: pool.current(conn_id) is not None,
        connect_failure=pool.connect_failure,
        recreate=partial(pool.recreate, role=Role.CONSUME),
    )
    return WatcherLoop(
        memory=_memory(),
        session=WatcherSession,
        steps=steps,
        consumers=consumers,
        statuses=statuses,
        pool=pool,
        provisioner=Provisioner(declarer, ExchangeModeProvisioner(declarer, ManagementApi(look_up))),
        recovery=Recovery(consumers, probes),
        troubles=troubles,
        cooldown_conn=cooldown_conn,
        worker_start=worker_start,
        orphaned=orphaned,
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
    rules: RunRules

    def make(self, consumed: Consumed) -> SubscriptionTask:
        stop = asyncio.Event()
        if isinstance(consumed, FireConsumer):
            source = self._source(consumed.conn_id, consumed.queue_name, "fire", FIRE_WINDOW)
            handler: Handler[ConsumerEvent] = FireHandler(consumed, self.starter, self.troubles, stop, rules=self.rules)
            return self._task(consumed, source, handler, stop, FIRE_WINDOW)
        key = consumed.key
        source = self._source(key.conn_id, key.queue_name, str(consumed.id), WINDOW)
        judge = MessageJudge(
            message_filter=MessageFilter.deserialize(consumed.filter_data),
            misses=FilterMissState(key.queue_name, log, consumed.ack_unmatched),
            turns=Turns() if consumed.on_filter_error is OnFilterError.DEAD_LETTER else None,
        )
        if consumed.cooldown:
            handler = CooldownHandler(consumed, self.windows.of(key.dag_id), judge, stop, self.rules.bounds)
        else:
            handler = ImmediateHandler(consumed, self.starter, judge, rules=self.rules, stop=stop)
        named = judge.message_filter.filter_callable
        if isinstance(named, str):
            handler = ResolvingHandler(named, handler)
        return self._task(consumed, source, handler, stop, WINDOW)

    def _source(self, conn_id: str, queue_name: str, name: str, window: int) -> QueueSource:
        return QueueSource(self.pool, conn_id, queue_name, f"{self.identity}.{name}", window)

    def _task(
        self, consumed: Consumed, source: QueueSource, handler: Handler[ConsumerEvent], stop: asyncio.Event, window: int
    ) -> SubscriptionTask:
        return SubscriptionTask(consumed, source, handler, self.gate, self.troubles.report, window=window, stop=stop)


async def _list_consumers(look_up: Callable[[str], Awaitable[ConnectionSettings]], conn_id: str) -> ConsumerListing:
    try:
        settings = await look_up(conn_id)
    except Exception as error:  # a secrets backend or the metadata database may raise anything
        raise ManagementUnavailable(f"Airflow connection {conn_id} cannot be read: {describe(error)}") from error
    return await list_consumers(settings)


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
