"""Provisions one DAG in exchange mode: the sub queue, the exchange with its safety nets, and the bindings.

The queue comes first and needs nothing else, so it is there and consumed whatever becomes of the rest. What is bound
to it is compared with what is declared; bindings of another exchange, left by an earlier declaration, are removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from airflow_provider_rmq.broker.bindings import diff_bindings
from airflow_provider_rmq.broker.management import NoManagementUrl
from airflow_provider_rmq.broker.topology import Binding, Topology, exchange_topology, sub_queue_topology
from airflow_provider_rmq.errors import BrokerError, ConnectionLost, ManagementUnavailable, describe
from airflow_provider_rmq.watcher.subscription import ExchangeBinding, Subscription

log = logging.getLogger(__name__)


class Declares(Protocol):
    """Declares broker objects and changes bindings; all raise `BrokerError`."""

    async def declare(self, conn_id: str, topology: Topology) -> None:
        """Declare them."""
        ...

    async def rebind(self, conn_id: str, queue_name: str, bind: Iterable[Binding], unbind: Iterable[Binding]) -> None:
        """Change the bindings of a queue."""
        ...


class KnowsBindings(Protocol):
    """Tells what is bound."""

    async def queue_bindings(self, conn_id: str, queue_name: str) -> frozenset[Binding]:
        """Everything bound to a queue; raises `BrokerError`."""
        ...


@dataclass(frozen=True, slots=True)
class ExchangeModeProvisioner:
    """Carries it out, once a cycle for each DAG."""

    declarer: Declares
    management: KnowsBindings

    async def provision(
        self, subscription: Subscription, exchange: ExchangeBinding, complain: Callable[[str], None]
    ) -> str | None:
        """What stands in the way, None when all is well.

        Raises:
            ConnectionLost: The broker cannot be reached now.
        """
        conn_id, dag_id = subscription.key.conn_id, subscription.key.dag_id
        queue_trouble = await self._declare(conn_id, sub_queue_topology(dag_id))
        trouble = await self._declare(conn_id, exchange_topology(exchange.name, mirror=exchange.mirror))
        if trouble is None:
            trouble = await self._bind(subscription, exchange, complain)
        found = [text for text in (queue_trouble, trouble) if text]
        for text in found:
            complain(f"{subscription}, exchange {exchange.name}: {text}")
        return "; ".join(found) or None

    async def _declare(self, conn_id: str, topology: Topology) -> str | None:
        try:
            await self.declarer.declare(conn_id, topology)
        except ConnectionLost:
            raise
        except BrokerError as error:
            return describe(error)
        return None

    async def _bind(
        self, subscription: Subscription, exchange: ExchangeBinding, complain: Callable[[str], None]
    ) -> str | None:
        conn_id, queue_name = subscription.key.conn_id, subscription.key.queue_name
        left = f"the bindings of queue {queue_name} to exchange {exchange.name} are left as they are in this cycle"
        try:
            actual = await self.management.queue_bindings(conn_id, queue_name)
            diff = diff_bindings(exchange.name, exchange.routing_keys, actual)
            if diff:
                await self.declarer.rebind(conn_id, queue_name, diff.bind, diff.unbind)
        except NoManagementUrl as error:
            # Said in every cycle, since nothing else shows it: the queue is consumed and may even have bindings.
            log.error("%s: DAG %s: %s; %s", conn_id, subscription.key.dag_id, error, left)  # noqa: TRY400 - no traceback
            return None
        except ManagementUnavailable as error:
            complain(f"{subscription}: {left}: {describe(error)}")
            return None
        except ConnectionLost:
            raise
        except BrokerError as error:
            return describe(error)
        for verb, bindings in (("bound to", diff.bind), ("unbound from", diff.unbind)):
            for binding in bindings:
                log.info("queue %s is %s exchange %s, key %s", queue_name, verb, binding.exchange, binding.routing_key)
        return None
