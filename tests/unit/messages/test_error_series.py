"""Failures to evaluate a filter are reported at the first, and then at powers of ten from a hundred up."""

import logging

import pytest

from airflow_provider_rmq.messages.misses import FilterMissState

logger = logging.getLogger("test.errors")


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.WARNING, logger=logger.name)
    return lambda: [record.getMessage() for record in caplog.records]


def test_the_first_failure_and_the_hundredth_are_lines_with_queue_and_reason(lines):
    state = FilterMissState("orders", logger)

    for _ in range(999):
        state.on_error("ValueError: no JSON")

    assert len(lines()) == 2
    assert all("Filter could not be evaluated" in line and "orders" in line for line in lines())
    assert all("ValueError: no JSON" in line for line in lines())


def test_a_match_does_not_end_the_series(lines):
    state = FilterMissState("orders", logger)

    for _ in range(50):
        state.on_error("x")
        state.on_match()

    assert len(lines()) == 1


@pytest.mark.parametrize(("outcomes", "expected"), [(99, 1), (100, 2)])
def test_a_hundred_outcomes_without_a_failure_end_the_series(lines, outcomes, expected):
    state = FilterMissState("orders", logger, ack_unmatched=False)
    state.on_error("x")

    for _ in range(outcomes):
        state.on_match()
    state.on_error("x")

    assert len(lines()) == expected
