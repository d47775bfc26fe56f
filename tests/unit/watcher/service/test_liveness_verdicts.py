"""The liveness judgement: every rule of the table in `service.liveness` is a story of answers, and its last verdict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rmq.watcher.service.liveness import (
    CYCLES_BETWEEN_RECREATIONS,
    REPORTING_LAG,
    Answered,
    Asked,
    NoData,
    Question,
    Seen,
    Silent,
    Strikes,
    judge_connection,
    must_ask_connection,
)
from airflow_provider_rmq.watcher.states import ConnectionStatus, Registration
from airflow_provider_rmq.watcher.subscription import ConsumerKey

CONNECTED, ERROR, DEGRADED = ConnectionStatus.CONNECTED, ConnectionStatus.ERROR, ConnectionStatus.DEGRADED
NOW = 1000.0


def consumer(number, tag=None, since=0.0, lost=False):
    key = ConsumerKey(number, f"q{number}" if number else "rmq_watcher.fire", "c")
    return Asked(key, Registration(tag or f"tag{number}", since), lost)


A, B, FIRE = consumer(1), consumer(2), consumer(None, tag="fire")
BOTH = Question(asked=(A, B), live=2)
IDLE = Question(live=2, reason="trigger fails")


def seen(*tags, consumers=None):
    return Seen(frozenset(tags), len(tags) if consumers is None else consumers, NOW)


def after(*story):
    strikes = Strikes()
    for question, answer in story:
        verdict, strikes = judge_connection(question, answer, strikes)
    return verdict, strikes


def keys(items):
    return {item.key for item in items}


@pytest.mark.parametrize("answer", [seen("tag1", "tag2", "foreign"), Answered()])
def test_all_confirmed_is_connected(answer):
    verdict, _ = after((BOTH, answer))

    assert verdict.status is CONNECTED
    assert verdict.reason is None
    assert keys(verdict.confirmed) == keys((A, B))
    assert not verdict.recreate


def test_only_the_list_tells_a_number():
    assert after((BOTH, seen("tag1", "tag2", consumers=5)))[0].broker_consumers == 5
    assert after((BOTH, Answered()))[0].broker_consumers is None


def test_the_first_denial_shows_at_once_with_its_number_and_does_nothing():
    verdict, _ = after((BOTH, seen("tag2")))

    assert verdict.status is ERROR
    assert "q1" in verdict.reason
    assert "check 1 of 2" in verdict.reason
    assert keys(verdict.denied) == {A.key}
    assert not verdict.restart
    assert not verdict.recreate


def test_the_second_denial_in_a_row_restarts_the_denied_alone_and_recreates_the_connection():
    verdict, _ = after((BOTH, seen("tag2")), (BOTH, seen("tag2")))

    assert verdict.restart == {A.key}
    assert keys(verdict.confirmed) == {B.key}
    assert verdict.recreate


def test_a_confirmation_between_two_denials_starts_over():
    verdict, _ = after((BOTH, seen("tag2")), (BOTH, seen("tag1", "tag2")), (BOTH, seen("tag2")))

    assert "check 1 of 2" in verdict.reason
    assert not verdict.recreate


def test_a_foreign_consumer_of_the_same_queue_vouches_for_nobody():
    assert after((Question(asked=(A,), live=1), seen("somebody.else", consumers=1)))[0].status is ERROR


def test_a_strike_belongs_to_its_tag_and_not_to_the_successor():
    """L31."""
    renewed = Question(asked=(consumer(1, tag="renewed"), B), live=2)

    verdict, _ = after((BOTH, seen("tag2")), (renewed, seen("tag2")))

    assert "check 1 of 2" in verdict.reason
    assert not verdict.recreate


@pytest.mark.parametrize(
    ("since", "status"),
    [(NOW + 1, None), (NOW, None), (NOW - REPORTING_LAG, None), (NOW - REPORTING_LAG - 0.001, ERROR)],
)
def test_a_list_says_nothing_against_a_registration_younger_than_its_lag(since, status):
    """L31."""
    young = Question(asked=(consumer(1, since=since),), live=1)

    verdict, strikes = after((young, seen()))

    assert verdict.status is status
    assert bool(strikes.denials) is (status is ERROR)


def test_a_young_registration_beside_a_confirmed_one_disturbs_nothing():
    assert after((Question(asked=(A, consumer(2, since=NOW)), live=2), seen("tag1")))[0].status is CONNECTED


@pytest.mark.parametrize("answer", [seen("tag1", "tag2"), Answered()])
def test_a_tag_our_own_channel_has_lost_is_denied_whatever_the_broker_says(answer):
    lost = Question(asked=(consumer(1, lost=True), B), live=2)

    verdict, _ = after((lost, answer), (lost, answer))

    assert verdict.restart == {A.key}
    assert verdict.recreate


def test_a_silent_connection_denies_all_at_once_and_condemns_them_at_the_second_time():
    first, _ = after((BOTH, Silent("no answer")))
    second, _ = after((BOTH, Silent("no answer")), (BOTH, Silent("no answer")))

    assert (first.status, first.recreate) == (ERROR, False)
    assert "no answer" in first.reason
    assert second.restart == keys((A, B))
    assert second.recreate


def test_no_data_keeps_what_is_stored_and_moves_no_counter_of_a_consumer():
    verdict, strikes = after((BOTH, seen("tag2")), (BOTH, NoData("HTTP 504")))

    assert verdict.status is None
    assert not verdict.denied
    assert strikes.denials == {"tag1": 1}
    assert strikes.no_data == 1
    assert after((BOTH, seen("tag2")), (BOTH, NoData("HTTP 504")), (BOTH, seen("tag2")))[0].recreate


def test_no_data_hides_no_consumer_that_our_own_channel_has_lost():
    lost = Question(asked=(consumer(1, lost=True), B), live=2)

    verdict, strikes = after((BOTH, seen("tag1")), (lost, NoData("HTTP 504")))

    assert keys(verdict.denied) == {A.key}
    assert strikes.denials == {"tag1": 1, "tag2": 1}


def test_a_usable_answer_ends_the_row_of_failures_of_the_api():
    assert after((BOTH, NoData("x")), (BOTH, seen("tag1", "tag2")))[1].no_data == 0


@pytest.mark.parametrize("answer", [Answered(is_instead_of_list=True), Silent("x", is_instead_of_list=True)])
def test_the_passive_way_in_place_of_the_api_does_not_end_the_row_of_its_failures(answer):
    assert after((BOTH, NoData("x")), (BOTH, answer))[1].no_data == 2


def test_a_connection_is_recreated_at_most_once_in_five_cycles_and_is_degraded_meanwhile():
    strikes, recreated = Strikes(), []
    for cycle in range(14):
        verdict, strikes = judge_connection(BOTH, Silent("no answer"), strikes)
        if verdict.recreate:
            recreated.append(cycle)
        elif verdict.status is DEGRADED:
            assert not verdict.restart
            assert "left for" in verdict.reason

    assert recreated == [1, 6, 11]
    assert CYCLES_BETWEEN_RECREATIONS == 5


def test_a_verdict_held_back_is_degraded():
    story = [(BOTH, Silent("x"))] * 4

    verdict, _ = after(*story)

    assert verdict.status is DEGRADED
    assert keys(verdict.denied) == keys((A, B))


def test_the_fire_consumer_alone_is_enough_to_recreate_its_connection():
    alone = Question(asked=(FIRE,), live=3)

    verdict, _ = after((alone, seen()), (alone, seen()))

    assert verdict.recreate
    assert verdict.restart == {FIRE.key}


def test_a_connection_without_a_running_consumer_is_an_error():
    verdict, _ = after((Question(live=0), NoData("not asked")))

    assert (verdict.status, verdict.recreate) == (ERROR, False)
    assert "no consumer" in verdict.reason


def test_a_failed_connect_is_an_error_with_its_reason_at_once():
    verdict, _ = after((Question(live=2, connect_failure="port refused"), NoData("not asked")))

    assert (verdict.status, verdict.reason) == (ERROR, "port refused")


def test_consumers_that_only_begin_to_attach_are_no_verdict():
    assert after((IDLE, NoData("not asked")))[0].status is None


def test_the_connection_itself_is_asked_from_the_second_idle_cycle_on():
    assert not must_ask_connection(IDLE, Strikes())
    _, strikes = after((IDLE, NoData("not asked")))
    assert must_ask_connection(IDLE, strikes)
    _, strikes = after((IDLE, NoData("")), (BOTH, seen("tag1", "tag2")))
    assert not must_ask_connection(IDLE, strikes)
    assert not must_ask_connection(BOTH, Strikes(idle=7))


def test_an_idle_connection_that_answers_is_left_and_the_fault_is_behind_it():
    verdict, _ = after((IDLE, NoData("")), (IDLE, Answered()))

    assert (verdict.status, verdict.recreate) == (ERROR, False)
    assert "behind it: trigger fails" in verdict.reason


def test_an_idle_connection_that_is_silent_is_recreated():
    verdict, _ = after((IDLE, NoData("")), (IDLE, Silent("no answer")))

    assert verdict.recreate
    assert not verdict.restart


def test_an_idle_connection_is_recreated_within_the_same_limit():
    strikes, recreated = Strikes(), []
    for cycle in range(13):
        verdict, strikes = judge_connection(IDLE, Silent("no answer"), strikes)
        recreated += [cycle] if verdict.recreate else []

    assert recreated == [1, 6, 11]


questions = st.builds(
    lambda tags, young, lost: Question(
        asked=tuple(
            consumer(n + 1, tag=tag, since=NOW if n in young else 0.0, lost=n in lost) for n, tag in enumerate(tags)
        ),
        live=max(1, len(tags)),
    ),
    st.lists(st.sampled_from("abcdef"), unique=True, max_size=4),
    st.sets(st.integers(0, 3)),
    st.sets(st.integers(0, 3)),
)
answers = st.one_of(
    st.builds(lambda tags: seen(*tags), st.sets(st.sampled_from("abcdef"))),
    st.just(Answered()),
    st.just(Silent("x")),
    st.just(NoData("x")),
)


@given(st.lists(st.tuples(questions, answers), max_size=40))
def test_what_holds_for_any_story(story):
    strikes, since_recreation = Strikes(), 99
    for question, answer in story:
        before = strikes
        verdict, strikes = judge_connection(question, answer, strikes)
        since_recreation += 1
        assert not keys(verdict.denied) & keys(verdict.confirmed)
        assert verdict.restart <= keys(verdict.denied)
        assert verdict.reason if verdict.status in {ERROR, DEGRADED} else verdict.reason is None
        for item in verdict.denied:
            if item.key in verdict.restart:
                assert before.denials.get(item.registration.tag, 0) >= 1
        if verdict.recreate:
            assert since_recreation >= CYCLES_BETWEEN_RECREATIONS
            since_recreation = 0
