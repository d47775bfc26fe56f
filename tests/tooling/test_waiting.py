"""`wait_until` returns what came true, and says in vain what it waited for."""

from __future__ import annotations

import pytest

from integration.lab.waiting import NotInTimeError, wait_until


def test_the_first_true_value_is_returned():
    answers = iter([None, 0, "", "found"])

    assert wait_until(lambda: next(answers), 5, "something", interval=0) == "found"


def test_the_error_names_what_was_awaited_and_last_seen():
    with pytest.raises(NotInTimeError, match=r"waited 0 s for the queue to be empty; last seen: False"):
        wait_until(lambda: False, 0, "the queue to be empty")


def test_the_error_shows_more_than_the_condition_where_that_is_asked_for():
    with pytest.raises(NotInTimeError, match="last seen: 7"):
        wait_until(lambda: False, 0, "the queue to be empty", show=lambda: 7)


def test_an_error_in_the_condition_is_not_waited_out():
    def broken() -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        wait_until(broken, 5, "something")
