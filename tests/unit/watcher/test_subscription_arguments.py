"""The rules for the arguments of a subscription, one row each."""

import pytest

from airflow_provider_rmq.errors import ConfigurationError
from airflow_provider_rmq.watcher.subscription import OnFilterError
from airflow_provider_rmq.watcher.subscription_builder import build_declarations, build_subscriptions


def declared(**arguments):
    return build_declarations(dag_id="d", **arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "exactly one .* given: none"),
        ({"queue": "a", "queues": ["b"]}, "exactly one .* given: queue, queues"),
        ({"queue": ""}, "queue must not be empty"),
        ({"queue": 7}, "queue must be a str, int was given: 7"),
        ({"queue": ["a"]}, "queue must be a str, list"),
        ({"queue": "q" * 256}, "queue is longer than the 255 bytes"),
        ({"queue": "ж" * 128}, "queue is longer than the 255 bytes"),
        ({"queue": "q" * 251}, "queue has 251 characters, 250 are allowed"),
        ({"queues": "a"}, "queues must be a list"),
        ({"queues": ("a",)}, "queues must be a list"),
        ({"queues": []}, "queues must be a list of queue names with at least one entry"),
        ({"queues": ["a", ""]}, "an entry of queues must not be empty"),
        ({"queues": ["a", None]}, "an entry of queues must be a str"),
        ({"queue": "q", "conn_id": ""}, "conn_id must not be empty"),
        ({"queue": "q", "conn_id": 5}, "conn_id must be a str"),
        ({"queue": "q", "conn_id": "c" * 251}, "conn_id has 251 characters"),
        ({"queue": "q", "cooldown": -1}, "cooldown must be an int of seconds, 0 or more; -1"),
        ({"queue": "q", "cooldown": True}, "cooldown must be an int"),
        ({"queue": "q", "cooldown": 1.5}, "cooldown must be an int"),
        ({"queue": "q", "cooldown": "60"}, "cooldown must be an int"),
        ({"queue": "q", "cooldown": None}, "cooldown must be an int"),
        ({"queue": "q", "ack_unmatched": "false"}, "ack_unmatched must be True or False"),
        ({"queue": "q", "ack_unmatched": 1}, "ack_unmatched must be True or False"),
        ({"queue": "q", "filter_data": "x"}, "filter_data must be a dict or None"),
        ({"queue": "q", "filter_data": {"filter_headers": {"a": {1, 2}}}}, "filter_data must be JSON"),
        ({"queue": "q", "filter_data": {"filter_headers": {"a": float("nan")}}}, "filter_data must be JSON"),
        ({"queue": "q", "filter_data": {"filter_headers": [1]}}, "filter_headers must be a dict"),
        ({"queue": "q", "routing_keys": ["a"]}, "routing_keys belongs to exchange"),
        ({"exchange": "e"}, "exchange needs routing_keys, routing_key_ids, or both"),
        ({"exchange": "e", "routing_keys": [], "routing_key_ids": []}, "routing_keys, routing_key_ids"),
        ({"exchange": "", "routing_keys": ["k"]}, "exchange must not be empty"),
        ({"exchange": 5, "routing_keys": ["k"]}, "exchange must be a str"),
        ({"exchange": "rmq_watcher.x", "routing_keys": ["k"]}, "rmq_watcher. are the provider's own"),
        ({"exchange": "e", "routing_keys": "k"}, "routing_keys must be a list"),
        ({"exchange": "e", "routing_keys": [""]}, "routing_keys must be a non-empty string"),
        ({"exchange": "e", "routing_key_ids": "a"}, "routing_key_ids must be a list"),
        ({"exchange": "e", "routing_key_ids": ["a.b"]}, "routing_key_ids must not contain a dot"),
        ({"exchange": "e", "routing_key_ids": ["a"], "routing_key_status": "x.y"}, "routing_key_status must not"),
        ({"exchange": "e", "routing_key_ids": ["a"], "routing_key_status": 5}, "routing_key_status must be a list"),
        ({"exchange": "e", "routing_key_ids": ["a"], "routing_key_status": [""]}, "non-empty string"),
        ({"exchange": "e", "routing_key_ids": ["a"], "routing_key_status": []}, "no routing key is left"),
        ({"exchange": "e", "routing_keys": ["k" * 256]}, "longer than the 255 bytes"),
        ({"exchange": "e", "routing_keys": ["k"], "queue": "q"}, "exactly one"),
    ],
)
def test_a_wrong_argument_says_what_was_given_and_what_is_allowed(arguments, words):
    with pytest.raises(ConfigurationError, match=words):
        declared(**arguments)


def test_each_queue_is_a_subscription_of_its_own_and_named_once():
    assert [item.key.queue_name for item in declared(queues=["a", "b", "a"])] == ["a", "b"]


def test_keys_are_the_literal_ones_and_then_each_id_with_each_status_without_repetition():
    (declaration,) = declared(
        exchange="e", routing_keys=["x.y", "1.ok"], routing_key_ids=["1", "2"], routing_key_status=["ok", "bad"]
    )

    assert declaration.exchange.routing_keys == ("x.y", "1.ok", "1.bad", "2.ok", "2.bad")
    assert declaration.key.queue_name == "rmq_watcher.sub.d"


def test_any_status_is_meant_when_none_is_given():
    (declaration,) = declared(exchange="e", routing_key_ids=["1"])

    assert declaration.exchange.routing_keys == ("1.*",)


def test_the_form_on_the_dag_object():
    (entry,) = build_subscriptions(dag_id="d", exchange="e", routing_keys=["k"], cooldown=60)

    assert entry == {
        "queue_name": "rmq_watcher.sub.d",
        "conn_id": "rmq_default",
        "filter_data": {},
        "cooldown": 60,
        "ack_unmatched": False,
        "exchange": "e",
        "routing_keys": ["k"],
    }


def test_what_becomes_of_an_unreadable_message_is_one_of_two_words():
    """L11."""
    (declared,) = build_declarations(dag_id="d", queue="q", on_filter_error="dead_letter")
    (usual,) = build_declarations(dag_id="d", queue="q")

    assert declared.on_filter_error is OnFilterError.DEAD_LETTER
    assert declared.as_dict()["on_filter_error"] == "dead_letter"
    assert usual.on_filter_error is OnFilterError.REQUEUE
    assert "on_filter_error" not in usual.as_dict()
    for wrong in ("ack", "", None, True, ["requeue"]):
        with pytest.raises(ConfigurationError, match="on_filter_error must be"):
            build_declarations(dag_id="d", queue="q", on_filter_error=wrong)


@pytest.mark.parametrize("field", ["dag_id", "queue", "conn_id"])
@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
def test_a_name_that_no_database_stores_is_refused(field, text):
    arguments = {"dag_id": "d", "queue": "q", "conn_id": "c", field: text}

    with pytest.raises(ConfigurationError, match=f"{field} holds NUL or half a character"):
        build_declarations(**arguments)


def test_a_filter_that_no_database_stores_is_refused():
    with pytest.raises(ConfigurationError, match="filter_data must be JSON"):
        build_declarations(dag_id="d", queue="q", filter_data={"filter_headers": {"k": "\ud800"}})
