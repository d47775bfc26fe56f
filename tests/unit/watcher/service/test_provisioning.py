"""Broker objects for cooldown and exchange mode, once a cycle; what is wrong with one DAG is that DAG's alone."""

import pytest

from airflow_provider_rmq.broker.topology import exchange_topology, fire_topology, pending_topology, sub_queue_topology
from airflow_provider_rmq.errors import AccessRefused, BrokerError, ConnectionLost, TopologyConflict
from airflow_provider_rmq.watcher.orphan_tracker import OwnQueue
from airflow_provider_rmq.watcher.service.exchange_mode import ExchangeModeProvisioner
from airflow_provider_rmq.watcher.service.provisioning import Provisioner
from airflow_provider_rmq.watcher.subscription import ExchangeBinding, FireConsumer, Subscription, SubscriptionKey

CONFLICT = TopologyConflict("406 PRECONDITION_FAILED: given was 1, it has none")


class Declarer:
    """Keeps what it declares; refuses what it is told to, by the name of a queue or exchange."""

    def __init__(self):
        self.declared = []
        self.refusals = {}

    async def declare(self, conn_id, topology):
        self.declared.append((conn_id, topology))
        for name in [item.name for item in (*topology.exchanges, *topology.queues)]:
            if name in self.refusals:
                raise self.refusals[name]

    async def rebind(self, conn_id, queue_name, bind, unbind):
        """Bindings are `test_exchange_mode`'s part."""


class NoBindings:
    async def queue_bindings(self, conn_id, queue_name):
        return frozenset()


@pytest.fixture
def declarer():
    return Declarer()


@pytest.fixture
def provisioner(declarer):
    return Provisioner(declarer, ExchangeModeProvisioner(declarer, NoBindings()))


def cooled(number, dag_id, conn_id="c"):
    return Subscription(id=number, key=SubscriptionKey(dag_id, f"q{number}", conn_id), cooldown=60)


def bound(number, dag_id, conn_id="c"):
    return Subscription(id=number, key=SubscriptionKey(dag_id, f"rmq_watcher.sub.{dag_id}", conn_id))


def exchanges(*subscriptions, name="e"):
    return {item.key: ExchangeBinding(name=name, routing_keys=("a",)) for item in subscriptions}


async def test_a_plain_subscription_needs_nothing(provisioner, declarer):
    done = await provisioner.provision([Subscription(id=1, key=SubscriptionKey("d", "q", "c"))], {})

    assert declarer.declared == []
    assert (done.fire, done.blocked, done.troubles, done.queues) == (None, {}, {}, frozenset())


async def test_cooldown_needs_the_fire_queue_once_and_a_pending_queue_a_dag(provisioner, declarer):
    done = await provisioner.provision([cooled(1, "b"), cooled(2, "a"), cooled(3, "a")], {})

    assert declarer.declared == [("c", fire_topology()), ("c", pending_topology("a")), ("c", pending_topology("b"))]
    assert done.fire == FireConsumer("c", "rmq_watcher.fire")
    assert done.queues == {OwnQueue("c", "rmq_watcher.pending.a"), OwnQueue("c", "rmq_watcher.pending.b")}


async def test_cooldown_over_several_connections_is_an_error_and_the_smallest_is_used(provisioner, declarer, caplog):
    for _ in range(3):
        done = await provisioner.provision([cooled(1, "a", "zeta"), cooled(2, "b", "alpha")], {})

    assert done.fire == FireConsumer("alpha", "rmq_watcher.fire")
    assert {conn_id for conn_id, _ in declarer.declared} == {"alpha"}
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "alpha, zeta" in record.message
    assert "that of alpha" in record.message


async def test_a_pending_queue_with_other_arguments_blocks_its_dag_alone(provisioner, declarer, caplog):
    """B45."""
    declarer.refusals["rmq_watcher.pending.a"] = CONFLICT

    done = await provisioner.provision([cooled(1, "a"), cooled(2, "a"), cooled(3, "b")], {})

    assert set(done.blocked) == {1, 2}
    assert all("given was 1, it has none" in reason for reason in done.blocked.values())
    assert done.queues == {OwnQueue("c", "rmq_watcher.pending.b")}
    assert "PRECONDITION_FAILED" in caplog.text


async def test_a_conflict_is_tried_once_a_cycle_logged_on_powers_of_ten_and_over_when_it_is_over(
    provisioner, declarer, caplog
):
    """B45: no declare storm."""
    declarer.refusals["rmq_watcher.pending.a"] = CONFLICT
    for _ in range(12):
        await provisioner.provision([cooled(1, "a")], {})

    assert len([topology for _, topology in declarer.declared if topology == pending_topology("a")]) == 12
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 2

    del declarer.refusals["rmq_watcher.pending.a"]
    assert (await provisioner.provision([cooled(1, "a")], {})).blocked == {}


@pytest.mark.parametrize("refusal", [CONFLICT, AccessRefused("403"), BrokerError("541 INTERNAL_ERROR")])
async def test_without_the_fire_queue_no_dag_with_cooldown_is_consumed_for(provisioner, declarer, refusal):
    declarer.refusals["rmq_watcher.fire"] = refusal

    done = await provisioner.provision([cooled(1, "a"), cooled(2, "b")], {})

    assert set(done.blocked) == {1, 2}
    assert declarer.declared == [("c", fire_topology())]


async def test_a_broker_that_cannot_be_reached_changes_nothing_for_consumers(provisioner, declarer, caplog):
    done = await provisioner.provision([cooled(1, "a")], {})
    assert done.blocked == {}

    declarer.refusals["rmq_watcher.fire"] = ConnectionLost("no route")
    done = await provisioner.provision([cooled(1, "a")], {})
    assert (done.fire, done.blocked) == (FireConsumer("c", "rmq_watcher.fire"), {})
    assert "ConnectionLost: no route" in caplog.text


async def test_a_conflict_outlives_a_cycle_in_which_nobody_answers(provisioner, declarer):
    subscription = bound(2, "x")
    everything = [cooled(1, "a"), subscription], exchanges(subscription)
    declarer.refusals = {"rmq_watcher.pending.a": CONFLICT, "e": CONFLICT}
    await provisioner.provision(*everything)

    declarer.refusals = {name: ConnectionLost("gone") for name in ("rmq_watcher.fire", "rmq_watcher.sub.x")}
    done = await provisioner.provision(*everything)

    assert "it has none" in done.blocked[1]
    assert "it has none" in done.troubles["x"]
    done = await provisioner.provision([cooled(7, "other")], {})
    assert (done.blocked, done.troubles) == ({}, {})
    done = await provisioner.provision(*everything)
    assert (done.blocked, done.troubles) == ({}, {})


async def test_exchange_mode_declares_the_queue_first_and_is_consumed(provisioner, declarer):
    subscription = bound(1, "x")

    done = await provisioner.provision([subscription], exchanges(subscription))

    assert declarer.declared == [("c", sub_queue_topology("x")), ("c", exchange_topology("e", mirror=True))]
    assert (done.blocked, done.troubles) == ({}, {})
    assert done.queues == {OwnQueue("c", "rmq_watcher.sub.x")}


@pytest.mark.parametrize(("refused", "refusal"), [("rmq_watcher.sub.x", CONFLICT), ("e", BrokerError("541"))])
async def test_what_is_wrong_with_one_dag_in_exchange_mode_is_told_and_the_others_go_on(
    provisioner, declarer, refused, refusal
):
    """B45."""
    declarer.refusals[refused] = refusal
    first, second = bound(1, "x"), bound(2, "y")

    done = await provisioner.provision([first, second], {**exchanges(first), **exchanges(second, name="f")})

    assert (set(done.troubles), done.blocked) == ({"x"}, {})
    assert str(refusal) in done.troubles["x"]
    assert ("c", exchange_topology("f", mirror=True)) in declarer.declared


async def test_an_unreachable_broker_delays_only_its_own_connection(provisioner, declarer):
    declarer.refusals["rmq_watcher.sub.x"] = ConnectionLost("gone")
    subscriptions = [bound(1, "x", "away"), bound(2, "z", "away"), bound(3, "y", "here")]

    await provisioner.provision(subscriptions, exchanges(*subscriptions))

    assert [conn_id for conn_id, _ in declarer.declared].count("away") == 1
    assert ("here", exchange_topology("e", mirror=True)) in declarer.declared


async def test_a_row_whose_declaration_is_gone_is_not_provisioned_for(provisioner, declarer):
    await provisioner.provision([bound(1, "x")], {})

    assert declarer.declared == []
