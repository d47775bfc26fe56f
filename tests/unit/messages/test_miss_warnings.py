"""Misses are counted, and a line appears at powers of ten from a hundred up."""

import logging

import pytest

from airflow_provider_rmq.messages.misses import FilterMissState, is_power_of_ten

logger = logging.getLogger("test.misses")


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.WARNING, logger=logger.name)
    return lambda: [record.getMessage() for record in caplog.records]


def test_a_hundred_misses_in_a_row_are_one_line_that_says_they_were_returned(lines):
    state = FilterMissState("orders", logger)

    for _ in range(999):
        state.on_miss()

    assert len(lines()) == 1
    assert "100 messages in a row missed the filter" in lines()[0]
    assert "orders" in lines()[0]
    assert "returned" in lines()[0]


def test_a_match_ends_the_row_of_misses(lines):
    state = FilterMissState("orders", logger)

    for _ in range(5):
        for _ in range(99):
            state.on_miss()
        state.on_match()

    assert lines() == []


def test_dropped_messages_are_counted_across_matches(lines):
    state = FilterMissState("orders", logger, ack_unmatched=True)

    for _ in range(2):
        for _ in range(99):
            state.on_miss()
        state.on_match()

    assert len(lines()) == 1
    assert "100 messages" in lines()[0]
    assert "have been dropped on queue orders" in lines()[0]


def test_two_counters_at_the_same_number_are_one_line(lines):
    state = FilterMissState("orders", logger, ack_unmatched=True)

    for _ in range(100):
        state.on_miss()

    assert len(lines()) == 1
    assert "in a row missed the filter" in lines()[0]
    assert "dropped" in lines()[0]


def test_two_counters_at_different_numbers_are_two_lines(lines):
    state = FilterMissState("orders", logger, ack_unmatched=True)
    for _ in range(10):
        for _ in range(90):
            state.on_miss()
        state.on_match()
    before = len(lines())

    for _ in range(100):
        state.on_miss()

    assert len(lines()) - before == 2


def test_the_counters_are_readable():
    state = FilterMissState("orders", logger, ack_unmatched=True)
    state.on_miss()
    state.on_miss()
    state.on_match()
    state.on_miss()
    state.on_error("x")

    assert (state.streak, state.dropped, state.error_streak, state.clean_run) == (1, 3, 1, 0)


@pytest.mark.parametrize(
    ("matched", "evaluated", "dropped", "expected"),
    [
        (0, 3, 0, ["none of the 3 messages of this batch passed the filter"]),
        (0, 3, 3, ["none of the 3", "3 did not pass the filter and were dropped"]),
        (1, 3, 2, ["2 did not pass the filter and were dropped"]),
        (1, 3, 0, []),
        (0, 0, 0, []),
    ],
)
def test_a_batch_is_summed_up_in_at_most_one_line(lines, matched, evaluated, dropped, expected):
    FilterMissState("orders", logger, ack_unmatched=True).on_batch_done(matched, evaluated, dropped)

    assert len(lines()) == bool(expected)
    assert all(part in lines()[0] for part in expected)


@pytest.mark.parametrize(
    ("count", "due"), [(1, False), (10, False), (99, False), (100, True), (200, False), (1000, True), (10_000, True)]
)
def test_lines_are_due_at_powers_of_ten_from_a_hundred_up(count, due):
    assert is_power_of_ten(count) is due
