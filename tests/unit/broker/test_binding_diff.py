"""What a sub queue is bound to against what its declaration wants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rmq.broker.bindings import diff_bindings
from airflow_provider_rmq.broker.topology import Binding

QUEUE = "rmq_watcher.sub.d"
DEFAULT = Binding("", QUEUE)


def binding(key, exchange="e"):
    return Binding(exchange, key)


def test_a_new_queue_is_bound_with_every_key():
    diff = diff_bindings("e", ["b", "a"], [DEFAULT])

    assert (diff.bind, diff.unbind) == ((binding("a"), binding("b")), ())


def test_what_is_as_declared_changes_nothing():
    assert not diff_bindings("e", ["a"], [DEFAULT, binding("a")])


def test_a_changed_key_set_binds_the_new_and_unbinds_the_old():
    diff = diff_bindings("e", ["a", "b"], [DEFAULT, binding("a"), binding("old")])

    assert (diff.bind, diff.unbind) == ((binding("b"),), (binding("old"),))


def test_the_bindings_of_an_earlier_exchange_are_removed():
    """L16."""
    diff = diff_bindings("e", ["a"], [DEFAULT, binding("a"), binding("a", "before"), binding("x", "before")])

    assert diff.bind == ()
    assert diff.unbind == (binding("a", "before"), binding("x", "before"))


def test_the_binding_to_the_default_exchange_is_nobodys_to_touch():
    assert diff_bindings("e", ["a"], [DEFAULT, binding("a")]).unbind == ()


def test_a_binding_with_arguments_stays_and_does_not_stand_for_a_declared_key():
    foreign = Binding("e", "a", {"x-match": "all"})

    diff = diff_bindings("e", ["a"], [DEFAULT, foreign, Binding("headers", "", {"kind": "order"})])

    assert (diff.bind, diff.unbind) == ((binding("a"),), ())


@given(
    st.sets(st.text(max_size=4), min_size=1),
    st.sets(st.tuples(st.sampled_from(["e", "before"]), st.text(max_size=4))),
)
def test_carrying_the_difference_out_leaves_exactly_what_is_declared(keys, bound):
    actual = {Binding(exchange, key) for exchange, key in bound}

    diff = diff_bindings("e", keys, actual | {DEFAULT})

    assert (actual | set(diff.bind)) - set(diff.unbind) == {binding(key) for key in keys}
    assert actual.isdisjoint(diff.bind)
    assert set(diff.unbind) <= actual


@pytest.mark.parametrize("keys", [[], ["a"]])
def test_a_difference_without_content_is_false(keys):
    assert bool(diff_bindings("e", keys, [])) is bool(keys)
