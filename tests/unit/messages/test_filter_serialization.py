"""The form of a filter in trigger arguments and database rows is fixed by earlier releases."""

import pytest

from airflow_provider_rmq.messages.filters import MessageFilter


@pytest.mark.parametrize(
    ("message_filter", "data"),
    [
        (MessageFilter(), {"filter_headers": None}),
        (MessageFilter({"a": 1}), {"filter_headers": {"a": 1}}),
        (MessageFilter({"a": 1}, lambda *_: True), {"filter_headers": {"a": 1}}),
        (MessageFilter(None, "shop.rules:urgent"), {"filter_headers": None, "filter_callable": "shop.rules:urgent"}),
    ],
)
def test_functions_are_dropped_and_import_paths_are_kept(message_filter, data):
    assert message_filter.serialize() == data


def test_a_serialized_filter_comes_back_equal():
    message_filter = MessageFilter({"body.a": 1, "b": None}, "shop.rules:urgent")

    assert MessageFilter.deserialize(message_filter.serialize()) == message_filter


@pytest.mark.parametrize("data", [{}, None, {"filter_headers": None}])
def test_missing_keys_mean_no_condition(data):
    assert not MessageFilter.deserialize(data).has_filters
