"""Indexes of a batch are told as ranges."""

import pytest

from airflow_provider_rmq.broker.confirms import ranges


@pytest.mark.parametrize(
    ("indexes", "text"),
    [((), ""), ((0,), "0"), ((0, 1, 2), "0-2"), ((0, 2, 3, 4, 9), "0, 2-4, 9")],
)
def test_rising_numbers_become_ranges(indexes, text):
    assert ranges(indexes) == text
