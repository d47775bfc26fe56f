"""What a person typed is checked by the decorator's rules, all fields at once, and stays as it was typed."""

import pytest

from airflow_provider_rmq.watcher.subscription_form import (
    SubscriptionForm,
    check_form,
    parse_cooldown,
    parse_filter_data,
)


def submitted(**fields):
    lists = {name: value if isinstance(value, list) else [value] for name, value in fields.items()}
    return SubscriptionForm.submitted(lambda name: lists.get(name, []))


def good(**changes):
    return submitted(**({"dag_id": "orders_dag", "queue_name": "orders", "enabled": "on"} | changes))


def test_fields_are_read_as_a_browser_sends_them():
    form = submitted(
        dag_id=" d ", queue_name=["a", "", "b "], conn_id="", cooldown="5", filter_data="{}", ack_unmatched="on"
    )

    assert form == SubscriptionForm(
        dag_id="d",
        queue_names=("a", "b "),
        conn_id="rmq_default",
        cooldown="5",
        filter_data="{}",
        enabled=False,
        ack_unmatched=True,
    )


@pytest.mark.parametrize("value", ["true", "1", "ON", ""])
def test_only_on_ticks_a_box(value):
    assert not submitted(enabled=value).enabled


def test_a_form_becomes_one_declaration_a_queue():
    checked = check_form(good(queue_name=["a", "b"], cooldown="60", filter_data='{"filter_headers": {"t": 1}}'))

    assert not checked.errors
    assert [item.key.queue_name for item in checked.declarations] == ["a", "b"]
    assert {item.cooldown for item in checked.declarations} == {60}
    assert checked.declarations[0].filter_data == {"filter_headers": {"t": 1}}


@pytest.mark.parametrize("text", ["-1", "1.5", "ten", "1e3", "٣", "+5", "1 0"])
def test_a_cooldown_that_is_no_whole_number_is_refused(text):
    with pytest.raises(ValueError, match="cooldown"):
        parse_cooldown(text)


@pytest.mark.parametrize(("text", "seconds"), [("", 0), ("  ", 0), ("0", 0), (" 30 ", 30)])
def test_a_cooldown_is_seconds_and_empty_is_none(text, seconds):
    assert parse_cooldown(text) == seconds


@pytest.mark.parametrize("text", ["[1]", "{", '"x"', "null", "1", "[" * 100_000])
def test_a_filter_that_is_no_json_object_is_refused(text):
    with pytest.raises(ValueError, match="filter_data"):
        parse_filter_data(text)


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("dag_id", {"dag_id": " "}),
        ("dag_id", {"dag_id": "d" * 251}),
        ("queue_name", {"queue_name": ["", ""]}),
        ("queue_name", {"queue_name": "q" * 256}),
        ("queue_name", {"queue_name": ["fine", "ü" * 200]}),
        ("conn_id", {"conn_id": "c" * 251}),
        ("cooldown", {"cooldown": "soon"}),
        ("cooldown", {"cooldown": "99999999"}),
        ("filter_data", {"filter_data": "no json"}),
        ("filter_data", {"filter_data": '{"filter_headers": 5}'}),
        ("filter_data", {"filter_data": '{"filter_headers": {"a": NaN}}'}),
    ],
)
def test_each_error_stands_at_its_field(field, changes):
    checked = check_form(good(**changes))

    assert set(checked.errors) == {field}
    assert checked.declarations == ()


def test_all_errors_are_said_at_once():
    checked = check_form(submitted(dag_id="", queue_name="", cooldown="x", filter_data="y"))

    assert set(checked.errors) == {"dag_id", "queue_name", "cooldown", "filter_data"}


def test_queue_names_may_hold_whatever_amqp_allows():
    names = ["a b", 'quote"<b>', "ü", "a/b", "%2F", "{{ x }}"]

    assert [item.key.queue_name for item in check_form(good(queue_name=names)).declarations] == names
