"""A batch is judged as a whole, each delivery settled once, and counted after it was answered."""

import logging

import pytest
from factories import message
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rmq.broker.batches import BlockingDelivery, all_matches, first_match
from airflow_provider_rmq.errors import AlreadySettled
from airflow_provider_rmq.messages.filters import MessageFilter
from airflow_provider_rmq.messages.judge import MessageJudge
from airflow_provider_rmq.messages.misses import FilterMissState
from airflow_provider_rmq.messages.settlement import Settlement


class FakeBatch:
    """A queue in memory; remembers what the broker would be told."""

    def __init__(self, bodies, *, loses_connection=False):
        self.waiting = [message(body) for body in bodies]
        self.taken = []
        self.committed = None
        self.loses_connection = loses_connection

    def __iter__(self):
        for tag, each in enumerate(self.waiting, start=1):
            self.taken.append(BlockingDelivery(each, tag))
            yield self.taken[-1]

    def commit(self):
        assert self.committed is None
        if self.loses_connection:
            raise ConnectionError
        self.committed = [delivery.settlement for delivery in self.taken]


def judge(*, ack_unmatched=False):
    misses = FilterMissState("orders", logging.getLogger("test.batches"), ack_unmatched)
    return MessageJudge(message_filter=MessageFilter({"body.a": 1}), misses=misses)


MATCH, MISS, ERROR = b'{"a": 1}', b'{"a": 2}', b"nope"
kinds = st.lists(st.sampled_from([MATCH, MISS, ERROR]), max_size=20)


@given(bodies=kinds, ack_unmatched=st.booleans())
def test_every_delivery_is_settled_exactly_once_and_only_matches_are_returned(bodies, ack_unmatched):
    batch = FakeBatch(bodies)

    found = all_matches(batch, judge(ack_unmatched=ack_unmatched), lambda each: each.body)

    expected = {
        MATCH: Settlement.ACK,
        MISS: Settlement.ACK if ack_unmatched else Settlement.REQUEUE,
        ERROR: Settlement.REQUEUE,
    }
    assert batch.committed == [expected[body] for body in bodies]
    assert found == [MATCH] * bodies.count(MATCH)


@given(bodies=kinds, ack_unmatched=st.booleans())
def test_what_stands_behind_the_first_match_is_never_taken(bodies, ack_unmatched):
    batch = FakeBatch(bodies)

    found = first_match(batch, judge(ack_unmatched=ack_unmatched), lambda each: each.body)

    assert (found == MATCH) is (MATCH in bodies)
    looked_at = bodies.index(MATCH) + 1 if MATCH in bodies else len(bodies)
    assert len(batch.taken) == len(batch.committed) == looked_at
    assert None not in batch.committed


@pytest.mark.parametrize("take", [all_matches, first_match])
def test_nothing_is_counted_when_the_answer_did_not_get_through(take):
    owner = judge(ack_unmatched=True)

    with pytest.raises(ConnectionError):
        take(FakeBatch([MISS, ERROR], loses_connection=True), owner, lambda each: each.body)

    assert (owner.misses.streak, owner.misses.dropped, owner.misses.error_streak) == (0, 0, 0)


@pytest.mark.parametrize("take", [all_matches, first_match])
def test_nothing_is_answered_before_a_match_is_known_to_be_presentable(take):
    batch = FakeBatch([MATCH])

    with pytest.raises(ZeroDivisionError):
        take(batch, judge(), lambda _: 1 / 0)

    assert batch.committed is None


def test_a_second_settlement_is_an_error():
    delivery = BlockingDelivery(message(), 1)
    delivery.settle(Settlement.ACK)

    with pytest.raises(AlreadySettled):
        delivery.settle(Settlement.REQUEUE)
