"""One DAG in exchange mode: objects, bindings, and what may stand in the way."""

import logging

import pytest

from airflow_provider_rmq.broker.management import NoManagementUrl
from airflow_provider_rmq.broker.topology import Binding, exchange_topology, sub_queue_topology
from airflow_provider_rmq.errors import (
    AccessRefused,
    BrokerError,
    ConnectionLost,
    ManagementUnavailable,
    TopologyConflict,
)
from airflow_provider_rmq.watcher.service.exchange_mode import ExchangeModeProvisioner
from airflow_provider_rmq.watcher.subscription import ExchangeBinding, Subscription, SubscriptionKey

QUEUE = "rmq_watcher.sub.d"
SUBSCRIPTION = Subscription(id=1, key=SubscriptionKey("d", QUEUE, "c"))


class Broker:
    """One vhost: the bindings of the sub queue, and what is refused."""

    def __init__(self, *bindings):
        self.bindings = {Binding("", QUEUE), *bindings}
        self.declared = []
        self.refusals = {}
        self.unknown = None
        self.refused_binding = None

    async def declare(self, conn_id, topology):
        self.declared.append(topology)
        for name in [item.name for item in (*topology.exchanges, *topology.queues)]:
            if name in self.refusals:
                raise self.refusals[name]

    async def rebind(self, conn_id, queue_name, bind, unbind):
        assert (conn_id, queue_name) == ("c", QUEUE)
        if self.refused_binding:
            raise self.refused_binding
        self.bindings |= set(bind)
        self.bindings -= set(unbind)

    async def queue_bindings(self, conn_id, queue_name):
        assert (conn_id, queue_name) == ("c", QUEUE)
        if self.unknown:
            raise self.unknown
        return frozenset(self.bindings)

    def of_exchanges(self):
        return {(binding.exchange, binding.routing_key) for binding in self.bindings if binding.exchange}


async def provision(broker, exchange="e", keys=("a", "b"), *, mirror=True):
    complaints = []
    trouble = await ExchangeModeProvisioner(broker, broker).provision(
        SUBSCRIPTION, ExchangeBinding(name=exchange, routing_keys=keys, mirror=mirror), complaints.append
    )
    return trouble, complaints


async def test_everything_is_declared_and_bound_and_nothing_is_said():
    broker = Broker()

    assert await provision(broker) == (None, [])
    assert broker.declared == [sub_queue_topology("d"), exchange_topology("e", mirror=True)]
    assert broker.of_exchanges() == {("e", "a"), ("e", "b")}


async def test_without_mirror_no_log_queue_is_declared():
    """L17."""
    broker = Broker()

    await provision(broker, mirror=False)

    assert broker.declared[-1] == exchange_topology("e", mirror=False)


async def test_a_changed_exchange_leaves_none_of_the_old_bindings(caplog):
    """L16."""
    caplog.set_level(logging.INFO)
    broker = Broker(Binding("before", "a"), Binding("before", "x"))

    await provision(broker)

    assert broker.of_exchanges() == {("e", "a"), ("e", "b")}
    assert f"queue {QUEUE} is unbound from exchange before, key x" in caplog.text
    assert f"queue {QUEUE} is bound to exchange e, key a" in caplog.text


@pytest.mark.parametrize(
    "refusal", [TopologyConflict("406, given was 1, it has 2"), AccessRefused("403, no configure")]
)
async def test_a_queue_that_exists_with_other_properties_is_told_and_bound_all_the_same(refusal):
    """B45."""
    broker = Broker()
    broker.refusals[QUEUE] = refusal

    trouble, complaints = await provision(broker)

    assert str(refusal) in trouble
    assert complaints == [f"subscription 1 ({QUEUE} → d, c), exchange e: {trouble}"]
    assert broker.of_exchanges() == {("e", "a"), ("e", "b")}


async def test_an_exchange_that_is_something_else_is_told_and_not_bound_to():
    """B45."""
    broker = Broker()
    broker.refusals["e"] = TopologyConflict("406 PRECONDITION_FAILED: given was topic, it has direct")

    trouble, _ = await provision(broker)

    assert "given was topic, it has direct" in trouble
    assert broker.of_exchanges() == set()


async def test_without_management_url_bindings_stay_as_they_are_and_every_cycle_says_so(caplog):
    broker = Broker(Binding("before", "x"))
    broker.unknown = NoManagementUrl("the extra of Airflow connection c has no management_url")

    for _ in range(3):
        assert await provision(broker) == (None, [])

    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 3
    assert all(word in errors[0].message for word in ("c: DAG d", "no management_url", QUEUE))
    assert broker.of_exchanges() == {("before", "x")}


async def test_a_management_api_without_an_answer_changes_nothing_and_is_complained_about():
    broker = Broker(Binding("before", "x"))
    broker.unknown = ManagementUnavailable("HTTP 504")

    trouble, complaints = await provision(broker)

    assert trouble is None
    assert "HTTP 504" in complaints[0]
    assert broker.of_exchanges() == {("before", "x")}


@pytest.mark.parametrize("refusal", [AccessRefused("403, no read permission on exchange e"), BrokerError("404")])
async def test_a_binding_that_is_refused_is_told(refusal):
    broker = Broker()
    broker.refused_binding = refusal

    trouble, complaints = await provision(broker)

    assert str(refusal) in trouble
    assert len(complaints) == 1


@pytest.mark.parametrize("where", ["declare", "rebind"])
async def test_a_lost_connection_is_the_callers_to_know(where):
    broker = Broker()
    if where == "declare":
        broker.refusals["e"] = ConnectionLost("gone")
    else:
        broker.refused_binding = ConnectionLost("gone")

    with pytest.raises(ConnectionLost):
        await provision(broker)
