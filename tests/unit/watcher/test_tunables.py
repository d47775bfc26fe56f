"""The two Variables: what is read counts, what cannot be read keeps its value (L9)."""

import pytest

from airflow_provider_rmq.watcher.tunables import (
    CYCLE_TIMEOUT_VARIABLE,
    RECONCILE_INTERVAL_VARIABLE,
    Timing,
    cycle_timeout,
    read_timing,
    stale_after,
)


def reading(interval=None, timeout=None):
    values = {RECONCILE_INTERVAL_VARIABLE: interval, CYCLE_TIMEOUT_VARIABLE: timeout}

    def read(name):
        if isinstance(values[name], Exception):
            raise values[name]
        return values[name]

    return read


def test_unset_variables_mean_the_defaults():
    timing = read_timing(reading(), Timing(5, 7))

    assert (timing.interval, timing.budget) == (60, 300)


@pytest.mark.parametrize("text", ["10", "10.0", " 10 "])
def test_numbers_are_taken(text):
    timing = read_timing(reading(text, "45.5"), Timing())

    assert (timing.interval, timing.budget) == (10, 45.5)


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "nan", "inf", "1e999"])
def test_what_is_no_positive_number_means_the_default_with_a_warning(text, caplog):
    timing = read_timing(reading(text, text), Timing(5, 7))

    assert (timing.interval, timing.budget) == (60, 300)
    assert caplog.text.count("must be a number of seconds above 0") == 2


def test_a_variable_that_cannot_be_read_keeps_its_last_value(caplog):
    """L9."""
    refused = OSError()

    timing = read_timing(reading(refused, refused), Timing(5, 7))

    assert timing == Timing(5, 7)
    assert "OSError" in caplog.text  # an error without text is named by its type


def test_one_that_cannot_be_read_leaves_the_other_its_new_value():
    """L9."""
    assert read_timing(reading(OSError("x"), "9"), Timing(5, 7)) == Timing(5, 9)


def test_arithmetic():
    assert [cycle_timeout(interval, None) for interval in (1, 60, 100, 200)] == [300, 300, 300, 600]
    assert cycle_timeout(60, 10) == 10
    assert stale_after(60, 300) == 360
