"""A header condition compares one header by equality."""

import pytest
from factories import message

from airflow_provider_rmq.messages.filters import FilterVerdict, MessageFilter


@pytest.mark.parametrize(
    ("headers", "expected", "verdict"),
    [
        ({"kind": "order"}, {"kind": "order"}, FilterVerdict.MATCH),
        ({"kind": "refund"}, {"kind": "order"}, FilterVerdict.MISS),
        ({}, {"kind": "order"}, FilterVerdict.MISS),
        ({}, {"flag": None}, FilterVerdict.MATCH),
        ({"flag": None}, {"flag": None}, FilterVerdict.MATCH),
        ({"flag": 0}, {"flag": None}, FilterVerdict.MISS),
        ({"ratio": 1.5}, {"ratio": 1.5}, FilterVerdict.MATCH),
        ({"ratio": 1.5}, {"ratio": 1}, FilterVerdict.MISS),
        ({"meta": {"tags": ["a", None]}}, {"meta": {"tags": ["a", None]}}, FilterVerdict.MATCH),
        ({"meta": {"tags": ["a"]}}, {"meta": {"tags": "a"}}, FilterVerdict.MISS),
        ({"meta": {"a": 1, "b": 2}}, {"meta": {"b": 2, "a": 1}}, FilterVerdict.MATCH),
        ({"x": b"\xff\xfe\x80", "kind": "order"}, {"kind": "order"}, FilterVerdict.MATCH),
        ({"kind": "order", "shop": "b"}, {"kind": "order", "shop": "a"}, FilterVerdict.MISS),
        ({"body": "x"}, {"body": "x"}, FilterVerdict.MATCH),
    ],
)
def test_a_header_matches_only_an_equal_value(headers, expected, verdict):
    """B05, B07."""
    assert MessageFilter(expected).evaluate_message(message(headers=headers)) == (verdict, None)


@pytest.mark.parametrize("message_filter", [MessageFilter(), MessageFilter({}), MessageFilter.deserialize({})])
def test_a_filter_without_conditions_matches_every_message(message_filter):
    assert message_filter.evaluate_message(message(b"\xff\xfe"))[0] is FilterVerdict.MATCH


def test_properties_without_headers_count_as_empty_headers():
    class Properties:
        headers = None

    assert MessageFilter({"a": 1}).evaluate(Properties(), "x")[0] is FilterVerdict.MISS
