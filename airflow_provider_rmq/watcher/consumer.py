"""Puts the watcher's loop together: pools of threads, connections, the scan, the consumers."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import partial
from typing import Any

from airflow_provider_rmq import compat
from airflow_provider_rmq.broker.attachment import QueueSource
from airflow_provider_rmq.broker.pool import ConnectionPool
from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.messages.filters import MessageFilter
from airflow_provider_rmq.messages.judge import MessageJudge
from airflow_provider_rmq.messages.misses import FilterMissState
from airflow_provider_rmq.utils.executor import BoundedExecutor
from airflow_provider_rmq.watcher.dagfiles.scanner import DagFolderScanner
from airflow_provider_rmq.watcher.models import WatcherSession
from airflow_provider_rmq.watcher.rows.statuses import write_subscription_statuses
from airflow_provider_rmq.watcher.service.dag_gate import DagGate
from airflow_provider_rmq.watcher.service.dag_runs import RunStarter
from airflow_provider_rmq.watcher.service.handlers import ImmediateHandler
from airflow_provider_rmq.watcher.service.loop import WatcherLoop
from airflow_provider_rmq.watcher.service.reconcile import ConsumerSet
from airflow_provider_rmq.watcher.service.status_writer import StatusWriter
from airflow_provider_rmq.watcher.service.steps import BlockingSteps
from airflow_provider_rmq.watcher.service.subscription_task import WINDOW, SubscriptionTask
from airflow_provider_rmq.watcher.states import Row
from airflow_provider_rmq.watcher.subscription import Subscription

log = logging.getLogger(__name__)

#: Threads for the steps of a cycle.
CYCLE_WORKERS = 4
#: Threads for consumers: creating runs, looking connections up.
CONSUMER_WORKERS = 4


def build_watcher_loop() -> WatcherLoop:
    """A loop that is ready to run; call it inside the event loop that will run it."""
    identity = f"rmq_watcher.{socket.gethostname()}.{os.getpid()}"
    cycle_pool = BoundedExecutor("rmq-watcher-cycle", CYCLE_WORKERS)
    run_pool = BoundedExecutor("rmq-watcher-runs", CONSUMER_WORKERS)
    lookup_pool = BoundedExecutor("rmq-watcher-lookup", CONSUMER_WORKERS)
    steps = BlockingSteps(cycle_pool)
    statuses = StatusWriter(partial(_write_statuses, steps))
    pool = ConnectionPool(partial(_look_up, lookup_pool), identity)
    gate = DagGate(partial(_read_dag_states, steps))
    starter = RunStarter(run_pool, WatcherSession, CONSUMER_WORKERS)

    def make(subscription: Subscription) -> SubscriptionTask:
        key = subscription.key
        source = QueueSource(pool, key.conn_id, key.queue_name, f"{identity}.{subscription.id}", WINDOW)
        judge = MessageJudge(
            message_filter=MessageFilter.deserialize(subscription.filter_data),
            misses=FilterMissState(key.queue_name, log, subscription.ack_unmatched),
        )
        handler = ImmediateHandler(subscription, starter, judge)
        return SubscriptionTask(subscription, source, handler, gate, statuses.report)

    return WatcherLoop(
        declarations=DagFolderScanner(compat.dags_folder),
        session=WatcherSession,
        steps=steps,
        consumers=ConsumerSet(make, statuses.forget),
        statuses=statuses,
        pool=pool,
    )


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
