"""The watcher's cycle: its phases are the list in `WatcherLoop.phases`; then wait, then again.

Every phase survives on its own: what cannot be read now leaves what is running as it is. Blocking work is bounded by
`steps`, AMQP calls by the connection's timeouts, and the whole cycle by its budget. A cycle that exceeds it ends the
loop, consumers included, and `worker` makes a new one after a pause. The pieces called here are neighbours, and those
in `rows` and `dagfiles`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import Any, TypeVar

from airflow_provider_rmq import compat
from airflow_provider_rmq.broker.deadlines import call_with_timeout
from airflow_provider_rmq.broker.pool import ConnectionPool
from airflow_provider_rmq.broker.window import wait_until_set
from airflow_provider_rmq.errors import RMQError, describe
from airflow_provider_rmq.utils.metrics import incr
from airflow_provider_rmq.watcher.declarations import Complaint, DeclarationSource, Listing
from airflow_provider_rmq.watcher.orphan_tracker import OwnQueue
from airflow_provider_rmq.watcher.rows.complaints import ComplaintStore
from airflow_provider_rmq.watcher.rows.owned_queues import owned_queues
from airflow_provider_rmq.watcher.rows.restarts import WorkerStart, note_start
from airflow_provider_rmq.watcher.rows.schema import SchemaMigration
from airflow_provider_rmq.watcher.rows.statuses import write_connection_statuses
from airflow_provider_rmq.watcher.rows.subscriptions import EnabledSubscriptions, enabled_subscriptions
from airflow_provider_rmq.watcher.rows.sync import DeclarationSync
from airflow_provider_rmq.watcher.service.complaints import CycleComplaints
from airflow_provider_rmq.watcher.service.declared_extras import DeclaredExtras
from airflow_provider_rmq.watcher.service.orphans import OrphanReports
from airflow_provider_rmq.watcher.service.provisioning import Provisioned, Provisioner
from airflow_provider_rmq.watcher.service.reconcile import ConsumerSet
from airflow_provider_rmq.watcher.service.recovery import Recovery
from airflow_provider_rmq.watcher.service.row_troubles import RowTroubles
from airflow_provider_rmq.watcher.service.status_writer import StatusWriter
from airflow_provider_rmq.watcher.service.steps import BlockingSteps
from airflow_provider_rmq.watcher.service.tasks import create_guarded_task
from airflow_provider_rmq.watcher.states import ConnectionReport, Row, SubscriptionStatus
from airflow_provider_rmq.watcher.subscription import Consumed, Subscription
from airflow_provider_rmq.watcher.tunables import (
    ABANDON_AFTER,
    VARIABLES_TIMEOUT,
    Metric,
    Timing,
    read_timing,
    stale_after,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds for writing the last statuses when the loop ends.
LAST_WRITE_TIMEOUT = 5.0
#: What a row's trouble is filed under.
PROVISIONING = "provisioning"


@dataclass(slots=True)
class CooldownConnection:
    """The Airflow connection whose broker holds the cooldown queues of all DAGs; markers go there."""

    conn_id: str = ""

    def __call__(self) -> str:
        """The one in force."""
        return self.conn_id


class CycleTimedOut(RMQError):
    """A cycle exceeded its budget; the loop has ended and is to be made anew."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One part of a cycle; its name stands in log lines."""

    name: str
    run: Callable[[], Awaitable[None]]


@dataclass(slots=True)
class _Progress:
    """Where the cycle is, and since when."""

    phase: str = "start"
    since: float = 0.0


@dataclass(slots=True, kw_only=True)
class Memory:
    """What a process knows of declarations; a loop that is made anew goes on with it."""

    declarations: DeclarationSource
    sync: DeclarationSync = field(default_factory=DeclarationSync)
    extras: DeclaredExtras = field(default_factory=DeclaredExtras)
    complaints: ComplaintStore = field(default_factory=ComplaintStore)


@dataclass(slots=True, kw_only=True)
class WatcherLoop:
    """Runs cycles until told to stop."""

    memory: Memory
    session: Callable[[], Any]
    steps: BlockingSteps
    consumers: ConsumerSet
    statuses: StatusWriter
    pool: ConnectionPool
    provisioner: Provisioner
    recovery: Recovery
    troubles: RowTroubles
    cooldown_conn: CooldownConnection
    read_variable: Callable[[str], str | None] = compat.read_variable
    complaints: CycleComplaints = field(default_factory=lambda: CycleComplaints(log))
    timing: Timing = field(default_factory=Timing)
    migration: SchemaMigration = field(default_factory=SchemaMigration)
    worker_start: WorkerStart | None = None
    orphaned: Callable[[], str | None] = lambda: None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _start_noted: bool = False
    _listing: Listing | None = None
    _subscriptions: EnabledSubscriptions = field(default_factory=EnabledSubscriptions)
    _served: tuple[Subscription, ...] = ()
    _complaints: tuple[Complaint, ...] | None = None
    _provisioned: Provisioned = field(default_factory=Provisioned)
    _reports: dict[str, ConnectionReport] = field(default_factory=dict)
    _progress: _Progress = field(default_factory=_Progress)
    _orphans: OrphanReports = field(default_factory=OrphanReports)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """A cycle, in order."""
        return (
            Phase("variables", self._read_timing),
            Phase("migrate", self._migrate),
            Phase("scan", self._scan),
            Phase("sync", self._sync),
            Phase("read subs", self._read_subscriptions),
            Phase("provision", self._provision),
            Phase("reconcile", self._reconcile),
            Phase("liveness", self._check_liveness),
            Phase("orphans", self._report_orphans),
            Phase("report", self._report),
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Cycle until told to stop or the parent process is gone, then stop the consumers and close the connections.

        Raises:
            CycleTimedOut: A cycle exceeded its budget; consumers are stopped and connections closed all the same.
        """
        self._stop = stop
        ended = asyncio.Event()
        writer = create_guarded_task(self.statuses.run(ended), name="status writer")
        try:
            while not stop.is_set():
                if (reason := self.orphaned()) is not None:
                    log.error("RMQ Watcher: %s — stopping the watcher", reason)
                    break
                await self._cycle_within_budget()
                await wait_until_set(stop, self.timing.interval)
        finally:
            await self.consumers.stop()
            ended.set()
            await self._write_last_statuses(writer)
            await self.pool.close()

    async def _write_last_statuses(self, writer: asyncio.Task[None]) -> None:
        """A database that does not answer must hold up neither a stop nor a new loop."""
        try:
            await call_with_timeout(writer, LAST_WRITE_TIMEOUT)
            await call_with_timeout(self.statuses.flush(), LAST_WRITE_TIMEOUT)
        except asyncio.TimeoutError:
            log.warning("RMQ Watcher: the last statuses could not be written within %g s", LAST_WRITE_TIMEOUT)

    async def _cycle_within_budget(self) -> None:
        budget = self.timing.budget
        cycle = asyncio.ensure_future(self._cycle())
        try:
            await asyncio.wait({cycle}, timeout=budget)
        finally:
            if not cycle.done():
                cycle.cancel()
        if cycle.cancelled() or not cycle.done():
            incr(Metric.CYCLE_TIMED_OUT)
            seconds = _now() - self._progress.since
            log.error(
                "RMQ Watcher: the cycle exceeded its budget of %g s in phase %s, which has taken %.0f s; the consumers "
                "are stopped and the loop is made anew",
                budget,
                self._progress.phase,
                seconds,
            )
            await asyncio.wait({cycle}, timeout=ABANDON_AFTER)
            raise CycleTimedOut(f"cycle budget of {budget:g} s exceeded in phase {self._progress.phase}")
        cycle.result()

    async def _cycle(self) -> None:
        for phase in self.phases:
            if self._stop.is_set():
                log.info("RMQ Watcher: stop requested — ending this cycle before phase %s", phase.name)
                return
            self._progress = _Progress(phase.name, _now())
            try:
                await phase.run()
            except RMQError as error:
                log.warning("RMQ Watcher: %s", describe(error))
            except Exception:
                log.exception("RMQ Watcher: phase %s failed; the cycle goes on", phase.name)
        incr(Metric.CYCLE_COMPLETED)

    async def _read_timing(self) -> None:
        read = partial(read_timing, self.read_variable, self.timing)
        self.timing = await self.steps.run("variables", read, bound=VARIABLES_TIMEOUT, until=self._stop)

    async def _migrate(self) -> None:
        if not self.migration.ready:
            await self._in_session("migrate", self.migration.attempt)
        if self.worker_start is not None and not self._start_noted:
            await self._in_session("note the start", partial(note_start, start=self.worker_start))
            self._start_noted = True

    async def _scan(self) -> None:
        self._listing = None  # a scan that fails is followed by no sync
        listing = await self.steps.run("scan", self.memory.declarations.read, until=self._stop)
        if listing.distrust:
            self.complaints.error(f"RMQ Watcher: the sync is left out of this cycle: {listing.distrust}")
        self.complaints.end_cycle()
        if listing.distrust:
            return
        self.memory.extras.learn(listing.declarations)
        self._listing = listing

    async def _sync(self) -> None:
        if self._listing is None:
            return
        declared, turn = self._listing.declarations, self.memory.sync.take_turn()
        plan = await self._in_session("sync", partial(self.memory.sync.run, declared=declared, turn=turn))
        self._complaints = (*self._listing.complaints, *plan.refusals)

    async def _read_subscriptions(self) -> None:
        self._subscriptions = await self._in_session("read subs", enabled_subscriptions)
        self._served = self.memory.extras.applied(self._subscriptions.served)

    async def _provision(self) -> None:
        self._provisioned = await self.provisioner.provision(self._served, self.memory.extras.exchanges)
        if self._provisioned.fire is not None:
            self.cooldown_conn.conn_id = self._provisioned.fire.conn_id

    async def _reconcile(self) -> None:
        provisioned = self._provisioned
        desired: list[Consumed] = [item for item in self._served if item.id not in provisioned.blocked]
        if provisioned.fire is not None:
            desired.append(provisioned.fire)
        await self.consumers.reconcile(desired)
        self.troubles.replace_all(PROVISIONING, dict(provisioned.troubles))
        blocked = {item: f"{reason}; nothing is consumed" for item, reason in provisioned.blocked.items()}
        for subscription_id, reason in {**self._subscriptions.refused, **blocked}.items():
            self.statuses.report(subscription_id, Row(SubscriptionStatus.ERROR, reason))

    async def _check_liveness(self) -> None:
        self._reports = await self.recovery.check(self._subscriptions.conn_ids)

    async def _report_orphans(self) -> None:
        owned = await self._in_session("owned queues", owned_queues)
        pending = {OwnQueue(self.cooldown_conn.conn_id, name) for name in owned.pending}
        bound = {OwnQueue(key.conn_id, key.queue_name) for key in self.memory.extras.exchanges}
        self._orphans.report(self._provisioned.queues, pending | bound)

    async def _report(self) -> None:
        self.statuses.repeat_all()
        stamp = partial(
            write_connection_statuses,
            reports=self._reports,
            now=_utc_now(),
        )
        await self._in_session("report", stamp)
        if self._complaints is not None:
            keep = stale_after(self.timing.interval, self.timing.budget)
            store = partial(self.memory.complaints.replace, complaints=self._complaints, now=_utc_now(), keep=keep)
            await self._in_session("complaints", store)

    async def _in_session(self, name: str, work: Callable[[Any], T]) -> T:
        """Run a blocking step with a database session of its own."""

        def in_thread() -> T:
            with closing(self.session()) as session:
                return work(session)

        return await self.steps.run(name, in_thread, until=self._stop)


def _utc_now() -> datetime:
    """As the columns hold it, without a zone."""
    return datetime.now(timezone.utc).replace(tzinfo=None)


def _now() -> float:
    return asyncio.get_running_loop().time()
