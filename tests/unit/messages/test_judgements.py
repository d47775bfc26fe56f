"""A judge decides first and counts when told that the broker was answered."""

import logging

import pytest
from factories import message

from airflow_provider_rmq.messages.filters import MessageFilter
from airflow_provider_rmq.messages.judge import MessageJudge, check_ack_unmatched
from airflow_provider_rmq.messages.misses import FilterMissState
from airflow_provider_rmq.messages.settlement import FilterVerdict, Settlement


@pytest.fixture
def misses():
    return FilterMissState("orders", logging.getLogger("test.judge"), ack_unmatched=True)


@pytest.fixture
def judge(misses):
    return MessageJudge(message_filter=MessageFilter({"body.a": 1}), misses=misses)


@pytest.mark.parametrize(
    ("body", "verdict", "settlement"),
    [
        ('{"a": 1}', FilterVerdict.MATCH, Settlement.ACK),
        ('{"a": 2}', FilterVerdict.MISS, Settlement.ACK),
        ("nope", FilterVerdict.ERROR, Settlement.REQUEUE),
    ],
)
def test_a_judgement_holds_verdict_and_settlement(judge, body, verdict, settlement):
    judgement = judge.judge(message(body))

    assert (judgement.verdict, judgement.settlement) == (verdict, settlement)
    assert (judgement.reason is None) is (verdict is not FilterVerdict.ERROR)


def test_counters_move_only_when_the_settlement_was_sent(judge, misses):
    judgement = judge.judge(message('{"a": 2}'))
    assert (misses.streak, misses.dropped) == (0, 0)

    judge.settled(judgement)

    assert (misses.streak, misses.dropped) == (1, 1)


@pytest.mark.parametrize("value", ["false", 0, 1, None])
def test_ack_unmatched_must_be_a_bool(value):
    with pytest.raises(ValueError, match="ack_unmatched"):
        check_ack_unmatched(value)
