"""A filter callable is asked last, gets properties and text, and whatever it raises is an ERROR."""

import logging

import pytest
from factories import message

from airflow_provider_rmq.messages.filters import FilterVerdict, MessageFilter


def says_urgent(properties, body):
    return "urgent" in body


def test_a_callable_gets_properties_and_text():
    seen = []
    properties = object()

    MessageFilter(filter_callable=lambda *given: seen.append(given) or True).evaluate_message(
        message("text", properties=properties)
    )

    assert seen == [(properties, "text")]


def test_a_callable_is_not_asked_where_a_header_misses():
    message_filter = MessageFilter({"kind": "order"}, lambda *_: pytest.fail("asked"))

    assert message_filter.evaluate_message(message())[0] is FilterVerdict.MISS


@pytest.mark.parametrize(("answer", "verdict"), [(1, FilterVerdict.MATCH), ("", FilterVerdict.MISS)])
def test_the_truth_of_the_answer_counts(answer, verdict):
    assert MessageFilter(filter_callable=lambda *_: answer).evaluate_message(message())[0] is verdict


def test_an_exception_is_an_error_with_type_and_text_and_a_traceback_at_debug(caplog):
    caplog.set_level(logging.DEBUG, logger="airflow.task")

    def breaks(_properties, _body):
        raise LookupError("no such shop")

    outcome = MessageFilter(filter_callable=breaks).evaluate_message(message())

    assert outcome == (FilterVerdict.ERROR, "LookupError: no such shop")
    assert [(record.levelname, bool(record.exc_info)) for record in caplog.records] == [("DEBUG", True)]
    assert MessageFilter(filter_callable=breaks).matches(message(), "x") is False


def test_an_answer_to_await_is_an_error():
    async def answer():
        return False

    verdict, reason = MessageFilter(filter_callable=lambda *_: answer()).evaluate_message(message())

    assert verdict is FilterVerdict.ERROR
    assert "awaitable" in reason


def test_an_import_path_is_resolved_when_a_message_arrives():
    message_filter = MessageFilter(filter_callable="test_filter_callables:says_urgent")

    assert message_filter.evaluate_message(message("urgent"))[0] is FilterVerdict.MATCH
    assert message_filter.evaluate_message(message("later"))[0] is FilterVerdict.MISS


@pytest.mark.parametrize("path", ["no.such.module:f", "test_filter_callables:nothing", "test_filter_callables:pytest"])
def test_an_import_path_that_leads_nowhere_is_an_error(path):
    assert MessageFilter(filter_callable=path).evaluate_message(message())[0] is FilterVerdict.ERROR


async def coroutine(_properties, _body):
    return True


@pytest.mark.parametrize("given", ["just text", "a.b.c", "a:b:c", 5, coroutine])
def test_what_cannot_be_a_callable_is_refused_at_construction(given):
    with pytest.raises(ValueError, match="filter_callable"):
        MessageFilter(filter_callable=given)


@pytest.mark.parametrize("given", ["kind=order", ["kind"], {1: 2}])
def test_conditions_that_are_no_dict_of_names_are_refused_at_construction(given):
    with pytest.raises(ValueError, match="filter_headers"):
        MessageFilter(given)
