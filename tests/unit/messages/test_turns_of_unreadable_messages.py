"""L11: a message that can never be read leaves after 20 turns where its subscription asks for it, never by an ack."""

import logging

import pytest
from factories import message

from airflow_provider_rmq.messages.filters import MessageFilter
from airflow_provider_rmq.messages.judge import MessageJudge
from airflow_provider_rmq.messages.misses import FilterMissState
from airflow_provider_rmq.messages.settlement import FilterVerdict, Settlement, settlement_for
from airflow_provider_rmq.messages.turns import MOST_MESSAGES, Turns


def judge(turns, *, ack_unmatched=False):
    return MessageJudge(
        message_filter=MessageFilter({"body.a": 1}),
        misses=FilterMissState("orders", logging.getLogger("test"), ack_unmatched),
        turns=turns,
    )


def settlements(judging, *messages):
    found = []
    for item in messages:
        judgement = judging.judge(item)
        judging.settled(judgement)
        found.append(judgement.settlement)
    return found


@pytest.mark.parametrize("verdict", FilterVerdict)
@pytest.mark.parametrize("ack_unmatched", [False, True])
def test_only_an_error_leaves_with_its_last_turn(verdict, ack_unmatched):
    plain = settlement_for(verdict, ack_unmatched=ack_unmatched)
    exhausted = settlement_for(verdict, ack_unmatched=ack_unmatched, exhausted=True)

    assert exhausted is (Settlement.DEAD_LETTER if verdict is FilterVerdict.ERROR else plain)


@pytest.mark.parametrize("ack_unmatched", [False, True])
@pytest.mark.parametrize("fields", [{"message_id": "m1"}, {}])
def test_the_twentieth_failed_read_is_the_last(ack_unmatched, fields):
    found = settlements(judge(Turns(), ack_unmatched=ack_unmatched), *[message("no json", **fields)] * 20)

    assert found == [Settlement.REQUEUE] * 19 + [Settlement.DEAD_LETTER]


def test_without_a_bound_it_goes_back_for_ever():
    assert set(settlements(judge(None), *[message("no json")] * 100)) == {Settlement.REQUEUE}


def test_each_message_has_turns_of_its_own():
    first, second = message("no json", message_id="m1"), message("no json", message_id="m2")
    judging = judge(Turns())

    assert settlements(judging, *[first] * 19) == [Settlement.REQUEUE] * 19
    assert settlements(judging, second) == [Settlement.REQUEUE]
    assert settlements(judging, first) == [Settlement.DEAD_LETTER]


def test_a_message_that_comes_again_after_its_end_has_all_turns_again():
    judging = judge(Turns())
    settlements(judging, *[message("no json")] * 20)

    assert settlements(judging, message("no json")) == [Settlement.REQUEUE]


def test_a_turn_counts_when_the_broker_has_its_answer():
    judging = judge(Turns())

    found = {judging.judge(message("no json")).settlement for _ in range(50)}

    assert found == {Settlement.REQUEUE}


def test_the_end_is_logged_with_the_message_and_the_reason_on_powers_of_ten(caplog):
    judging = judge(Turns())
    for number in range(12):
        settlements(judging, *[message("no json", message_id=f"m{number}")] * 20)

    lines = [record.message for record in caplog.records if "rejected without requeue" in record.message]
    assert len(lines) == 2
    assert "Queue orders: the message with id m0 could not be read 20 times" in lines[0]
    assert "JSONDecodeError" in lines[0]
    assert "id m9" in lines[1]


def test_memory_is_bounded_by_the_messages_seen_last():
    turns = Turns()
    for number in range(MOST_MESSAGES + 5):
        turns.take(f"id {number}")

    assert turns.taken("id 0") == 0
    assert turns.taken(f"id {MOST_MESSAGES + 4}") == 1
    assert len(turns._counts) == MOST_MESSAGES
