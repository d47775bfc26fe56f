"""The watcher's cycle: migrate, scan, sync, read subscriptions, provision, reconcile, report; then wait, then again.

Every step is bounded and survives on its own: what cannot be read now leaves what is running as it is. `worker`
starts and stops this loop; the pieces it calls are its neighbours here and in `rows` and `dagfiles`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import Any, TypeVar

from airflow_provider_rmq import compat
from airflow_provider_rmq.broker.pool import ConnectionPool
from airflow_provider_rmq.broker.window import wait_until_set
from airflow_provider_rmq.errors import RMQError, describe
from airflow_provider_rmq.utils.metrics import incr
from airflow_provider_rmq.watcher.declarations import DeclarationSource
from airflow_provider_rmq.watcher.orphan_tracker import OwnQueue
from airflow_provider_rmq.watcher.rows.owned_queues import owned_queues
from airflow_provider_rmq.watcher.rows.schema import ensure_schema
from airflow_provider_rmq.watcher.rows.statuses import write_connection_statuses
from airflow_provider_rmq.watcher.rows.subscriptions import EnabledSubscriptions, enabled_subscriptions
from airflow_provider_rmq.watcher.rows.sync import sync_declarations
from airflow_provider_rmq.watcher.service.declared_extras import DeclaredExtras
from airflow_provider_rmq.watcher.service.orphans import OrphanReports
from airflow_provider_rmq.watcher.service.provisioning import Provisioned, Provisioner
from airflow_provider_rmq.watcher.service.reconcile import ConsumerSet
from airflow_provider_rmq.watcher.service.row_troubles import RowTroubles
from airflow_provider_rmq.watcher.service.status_writer import StatusWriter
from airflow_provider_rmq.watcher.service.steps import BlockingSteps
from airflow_provider_rmq.watcher.service.tasks import create_guarded_task
from airflow_provider_rmq.watcher.states import Row, SubscriptionStatus
from airflow_provider_rmq.watcher.subscription import Consumed, Subscription
from airflow_provider_rmq.watcher.tunables import DEFAULT_RECONCILE_INTERVAL, Metric, reconcile_interval

log = logging.getLogger(__name__)

T = TypeVar("T")

#: What a row's trouble is filed under.
PROVISIONING = "provisioning"


@dataclass(slots=True)
class CooldownConnection:
    """The Airflow connection whose broker holds the cooldown queues of all DAGs; markers go there."""

    conn_id: str = ""

    def __call__(self) -> str:
        """The one in force."""
        return self.conn_id


@dataclass(slots=True, kw_only=True)
class WatcherLoop:
    """Runs cycles until told to stop."""

    declarations: DeclarationSource
    session: Callable[[], Any]
    steps: BlockingSteps
    consumers: ConsumerSet
    statuses: StatusWriter
    pool: ConnectionPool
    provisioner: Provisioner
    troubles: RowTroubles
    cooldown_conn: CooldownConnection
    interval: float = DEFAULT_RECONCILE_INTERVAL
    _schema_ready: bool = False
    _subscriptions: EnabledSubscriptions = field(default_factory=EnabledSubscriptions)
    _served: tuple[Subscription, ...] = ()
    _extras: DeclaredExtras = field(default_factory=DeclaredExtras)
    _provisioned: Provisioned = field(default_factory=Provisioned)
    _orphans: OrphanReports = field(default_factory=OrphanReports)

    async def run(self, stop: asyncio.Event) -> None:
        """Cycle until told to stop, then stop the consumers and close the connections."""
        writer = create_guarded_task(self.statuses.run(stop), name="status writer")
        try:
            while not stop.is_set():
                await self._cycle(stop)
                await wait_until_set(stop, self.interval)
        finally:
            await self.consumers.stop()
            await writer
            await self.statuses.flush()
            await self.pool.close()

    async def _cycle(self, stop: asyncio.Event) -> None:
        for phase in (
            self._read_interval,
            self._migrate,
            self._scan_and_sync,
            self._read_subscriptions,
            self._provision,
            self._reconcile,
            self._report_orphans,
            self._stamp_connections,
        ):
            if stop.is_set():
                log.info("RMQ Watcher: stop requested — ending this cycle before %s", phase.__name__.strip("_"))
                return
            try:
                await phase()
            except RMQError as error:
                log.warning("RMQ Watcher: %s", describe(error))
            except Exception:
                log.exception("RMQ Watcher: %s failed; the cycle goes on", phase.__name__.strip("_"))
        incr(Metric.CYCLE_COMPLETED)

    async def _read_interval(self) -> None:
        self.interval = await self.steps.run(
            "variables", partial(reconcile_interval, compat.read_variable, self.interval)
        )

    async def _migrate(self) -> None:
        if not self._schema_ready:
            await self._in_session("migrate", ensure_schema)
            self._schema_ready = True

    async def _scan_and_sync(self) -> None:
        listing = await self.steps.run("scan", self.declarations.read)
        if listing.distrust:
            log.error("RMQ Watcher: the sync is left out of this cycle: %s", listing.distrust)
            return
        self._extras.learn(listing.declarations)
        await self._in_session("sync", partial(sync_declarations, declared=listing.declarations))

    async def _read_subscriptions(self) -> None:
        self._subscriptions = await self._in_session("read subs", enabled_subscriptions)
        self._served = self._extras.applied(self._subscriptions.served)

    async def _provision(self) -> None:
        self._provisioned = await self.provisioner.provision(self._served, self._extras.exchanges)
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

    async def _report_orphans(self) -> None:
        owned = await self._in_session("owned queues", owned_queues)
        pending = {OwnQueue(self.cooldown_conn.conn_id, name) for name in owned.pending}
        bound = {OwnQueue(key.conn_id, key.queue_name) for key in self._extras.exchanges}
        self._orphans.report(self._provisioned.queues, pending | bound)

    async def _stamp_connections(self) -> None:
        self.statuses.repeat_all()
        stamp = partial(
            write_connection_statuses,
            consumers=self.consumers.live(subscription.key.conn_id for subscription in self._subscriptions.served),
            now=datetime.now(timezone.utc).replace(tzinfo=None),
        )
        await self._in_session("stamp connections", stamp)

    async def _in_session(self, name: str, work: Callable[[Any], T]) -> T:
        """Run a blocking step with a database session of its own."""

        def in_thread() -> T:
            with closing(self.session()) as session:
                return work(session)

        return await self.steps.run(name, in_thread)
