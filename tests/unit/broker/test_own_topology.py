"""The broker objects of the provider's own, with exactly the properties of the releases before this one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rmq.broker.names import MAX_NAME_BYTES
from airflow_provider_rmq.broker.topology import (
    Binding,
    Exchange,
    Queue,
    check_cooldown_dag_id,
    check_exchange_name,
    exchange_topology,
    fire_topology,
    pending_queue_name,
    pending_topology,
    sub_queue_name,
    sub_queue_topology,
)
from airflow_provider_rmq.errors import ConfigurationError

EIGHT_HOURS = 28_800_000


def queues(topology):
    return {queue.name: dict(queue.arguments) for queue in topology.queues}


def exchanges(topology):
    return [(exchange.name, exchange.kind, dict(exchange.arguments)) for exchange in topology.exchanges]


def test_the_fire_exchange_and_its_queue():
    topology = fire_topology()

    assert topology.exchanges == (Exchange("rmq_watcher.fire", "topic"),)
    assert topology.queues == (Queue("rmq_watcher.fire"),)
    assert topology.bindings == (("rmq_watcher.fire", Binding("rmq_watcher.fire", "#")),)


def test_a_pending_queue():
    assert queues(pending_topology("my_dag")) == {
        "rmq_watcher.pending.my_dag": {
            "x-dead-letter-exchange": "rmq_watcher.fire",
            "x-dead-letter-routing-key": "my_dag",
            "x-max-length": 1,
            "x-overflow": "reject-publish",
        }
    }


def test_a_sub_queue():
    assert queues(sub_queue_topology("my_dag")) == {"rmq_watcher.sub.my_dag": {"x-message-ttl": EIGHT_HOURS}}


def test_an_exchange_with_both_safety_nets_is_declared_before_its_alternate():
    topology = exchange_topology("e", mirror=True)

    assert exchanges(topology) == [("e", "topic", {"alternate-exchange": "e.unrouted"}), ("e.unrouted", "fanout", {})]
    assert queues(topology) == {"e.unrouted": {"x-message-ttl": EIGHT_HOURS}, "e.log": {"x-message-ttl": EIGHT_HOURS}}
    assert topology.bindings == (("e.unrouted", Binding("e.unrouted", "e.unrouted")), ("e.log", Binding("e", "#")))


def test_without_mirror_there_is_no_log_queue():
    """L17."""
    topology = exchange_topology("e", mirror=False)

    assert queues(topology) == {"e.unrouted": {"x-message-ttl": EIGHT_HOURS}}
    assert topology.bindings == (("e.unrouted", Binding("e.unrouted", "e.unrouted")),)


@pytest.mark.parametrize("name_of", [pending_queue_name, sub_queue_name])
@pytest.mark.parametrize("dag_id", ["d" * 250, "ф" * 125, "d" * 249 + "x"])
def test_a_name_that_amqp_cannot_hold_is_shortened_with_a_digest(name_of, dag_id):
    """R19."""
    name = name_of(dag_id)

    assert len(name.encode()) <= MAX_NAME_BYTES
    assert len(name) <= 250 or name_of is pending_queue_name
    assert name == name_of(dag_id)
    assert name.startswith(("rmq_watcher.pending.", "rmq_watcher.sub."))


@given(st.text(min_size=1, max_size=250), st.text(min_size=1, max_size=250))
def test_two_dags_never_share_a_queue(first, second):
    if first != second:
        assert pending_queue_name(first) != pending_queue_name(second)
        assert sub_queue_name(first) != sub_queue_name(second)


def test_names_that_fit_are_what_they_always_were():
    assert pending_queue_name("d" * 235) == "rmq_watcher.pending." + "d" * 235
    assert sub_queue_name("d" * 234) == "rmq_watcher.sub." + "d" * 234


def test_a_dag_id_longer_than_a_routing_key_has_no_cooldown():
    with pytest.raises(ConfigurationError, match="256 bytes"):
        check_cooldown_dag_id("ф" * 128)
    with pytest.raises(ConfigurationError, match="routing key"):
        pending_topology("ф" * 128)


def test_an_exchange_name_leaves_room_for_its_safety_nets():
    check_exchange_name("e" * 246)
    with pytest.raises(ConfigurationError, match=r"\.unrouted is 256 bytes"):
        check_exchange_name("e" * 247)
