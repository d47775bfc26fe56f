"""Sees to it in every cycle that the broker objects exist which cooldown and exchange mode need.

What an object is, is told by `broker.topology`; `exchange_mode` here beside does the part with bindings. Rules:

- An object that exists with other properties is named with both values, in the log and on the rows of its DAG, and is
  tried once a cycle. Other DAGs go on.
- Without its pending queue as it has to be a cooldown subscription consumes nothing: its messages wait in their queue.
- A sub queue that exists with other arguments is consumed as it is.
- A broker that cannot be reached changes nothing for consumers: what was in the way before still is, and the rest of
  its conn_id waits for the next cycle.
- Any other failure of one DAG is that DAG's alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from airflow_provider_rmq.broker.topology import FIRE, Topology, fire_topology, pending_queue_name, pending_topology
from airflow_provider_rmq.errors import BrokerError, ConnectionLost, describe
from airflow_provider_rmq.watcher.orphan_tracker import OwnQueue
from airflow_provider_rmq.watcher.service.complaints import CycleComplaints
from airflow_provider_rmq.watcher.subscription import ExchangeBinding, FireConsumer, Subscription, SubscriptionKey

log = logging.getLogger(__name__)


class Declares(Protocol):
    """Declares broker objects."""

    async def declare(self, conn_id: str, topology: Topology) -> None:
        """Declare them; raises `BrokerError`."""
        ...


class ExchangeMode(Protocol):
    """Provisions what one DAG in exchange mode needs."""

    async def provision(
        self, subscription: Subscription, exchange: ExchangeBinding, complain: Callable[[str], None]
    ) -> str | None:
        """What stands in the way, None when all is well; raises `ConnectionLost`."""
        ...


@dataclass(frozen=True, slots=True)
class Provisioned:
    """The end of one cycle's provisioning.

    Args:
        fire: The fire queue's consumer, where a subscription has a cooldown.
        blocked: Subscriptions that must not be consumed, by id, with the reason.
        troubles: What is wrong with a DAG whose subscriptions are consumed all the same.
        queues: The provider's own queues that stand as they have to.
    """

    fire: FireConsumer | None = None
    blocked: Mapping[int, str] = field(default_factory=dict)
    troubles: Mapping[str, str] = field(default_factory=dict)
    queues: frozenset[OwnQueue] = frozenset()


@dataclass(slots=True)
class _Reasons:
    """What stands in the way of which DAG; a DAG that could not be asked about keeps its reason."""

    known: dict[str, str] = field(default_factory=dict)

    def put(self, dag_id: str, reason: str | None) -> None:
        if reason:
            self.known[dag_id] = reason
        else:
            self.known.pop(dag_id, None)

    def keep_only(self, dag_ids: Iterable[str]) -> None:
        wanted = set(dag_ids)
        self.known = {dag_id: reason for dag_id, reason in self.known.items() if dag_id in wanted}


@dataclass(slots=True)
class Provisioner:
    """Provisions for all subscriptions, conn_ids side by side."""

    declarer: Declares
    exchange_mode: ExchangeMode
    complaints: CycleComplaints = field(default_factory=lambda: CycleComplaints(log))
    _pending: _Reasons = field(default_factory=_Reasons)
    _exchange: _Reasons = field(default_factory=_Reasons)

    async def provision(
        self, subscriptions: Iterable[Subscription], exchanges: Mapping[SubscriptionKey, ExchangeBinding]
    ) -> Provisioned:
        """Declare what is missing; never raises for what a broker does."""
        found = tuple(subscriptions)
        cooled = [item for item in found if item.cooldown]
        fire = self._fire_consumer(cooled)
        bound = [(item, exchanges[item.key]) for item in found if item.key in exchanges]
        self._pending.keep_only(item.key.dag_id for item in cooled)
        self._exchange.keep_only(item.key.dag_id for item, _ in bound)
        queues: set[OwnQueue] = set()
        await asyncio.gather(self._cooldown(fire, cooled, queues), self._exchanges(bound, queues))
        self.complaints.end_cycle()
        return Provisioned(
            fire,
            {item.id: reason for item in cooled if (reason := self._pending.known.get(item.key.dag_id))},
            dict(self._exchange.known),
            frozenset(queues),
        )

    def _fire_consumer(self, cooled: Iterable[Subscription]) -> FireConsumer | None:
        conn_ids = sorted({item.key.conn_id for item in cooled})
        if not conn_ids:
            return None
        if len(conn_ids) > 1:
            self.complaints.error(
                f"cooldown subscriptions are spread over several Airflow connections ({', '.join(conn_ids)}); pending "
                f"queues and fire queue live on one broker only, that of {conn_ids[0]}: use one connection for all"
            )
        return FireConsumer(conn_ids[0], FIRE)

    async def _cooldown(self, fire: FireConsumer | None, cooled: Iterable[Subscription], queues: set[OwnQueue]) -> None:
        """Fire and pending queues."""
        if fire is None:
            return
        try:
            refused = await self._declare(fire.conn_id, fire_topology())
            for dag_id in sorted({item.key.dag_id for item in cooled}):
                reason = refused or await self._declare(fire.conn_id, pending_topology(dag_id))
                self._pending.put(dag_id, reason)
                if reason is None:
                    queues.add(OwnQueue(fire.conn_id, pending_queue_name(dag_id)))
        except ConnectionLost as error:
            self.complaints.error(f"cooldown queues cannot be declared in this cycle: {describe(error)}")

    async def _declare(self, conn_id: str, topology: Topology) -> str | None:
        """Declare; the reason of a refusal."""
        try:
            await self.declarer.declare(conn_id, topology)
        except ConnectionLost:
            raise
        except BrokerError as error:
            self.complaints.error(f"{describe(error)}; the DAGs that need it are not consumed for")
            return describe(error)
        return None

    async def _exchanges(self, bound: Iterable[tuple[Subscription, ExchangeBinding]], queues: set[OwnQueue]) -> None:
        """The DAGs in exchange mode; conn_ids side by side."""
        by_conn_id: dict[str, list[tuple[Subscription, ExchangeBinding]]] = {}
        for subscription, exchange in bound:
            by_conn_id.setdefault(subscription.key.conn_id, []).append((subscription, exchange))
        await asyncio.gather(*(self._exchanges_of(group, queues) for group in by_conn_id.values()))

    async def _exchanges_of(self, group: Iterable[tuple[Subscription, ExchangeBinding]], queues: set[OwnQueue]) -> None:
        for subscription, exchange in group:
            try:
                trouble = await self.exchange_mode.provision(subscription, exchange, self.complaints.error)
            except ConnectionLost as error:
                self.complaints.error(f"{subscription}: exchange {exchange.name} is not provisioned: {describe(error)}")
                return
            self._exchange.put(subscription.key.dag_id, trouble)
            queues.add(OwnQueue(subscription.key.conn_id, subscription.key.queue_name))
