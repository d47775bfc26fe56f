"""The hook's arguments, attributes and form are those of earlier releases, and nothing connects before it is used."""

import inspect

import pytest

from airflow_provider_rmq.errors import ConfigurationError
from airflow_provider_rmq.hooks.rmq import RMQHook


def test_arguments_may_be_given_by_position():
    hook = RMQHook("conn", "vhost", {"prefetch_count": 5}, 7, 0.5)

    assert (hook.rmq_conn_id, hook.vhost, hook.retry_count, hook.retry_delay) == ("conn", "vhost", 7, 0.5)


def test_the_attributes_airflow_reads():
    assert RMQHook.conn_name_attr == "rmq_conn_id"
    assert RMQHook.default_conn_name == "rmq_default"
    assert (RMQHook.conn_type, RMQHook.hook_name) == ("amqp", "RabbitMQ")


@pytest.mark.parametrize(
    ("verb", "parameters"),
    [
        ("queue_declare", ["queue_name", "passive", "durable", "exclusive", "auto_delete", "arguments"]),
        ("queue_delete", ["queue_name", "if_unused", "if_empty"]),
        ("queue_bind", ["queue", "exchange", "routing_key", "arguments"]),
        ("queue_unbind", ["queue", "exchange", "routing_key", "arguments"]),
        ("queue_purge", ["queue_name"]),
        ("queue_info", ["queue_name"]),
        (
            "exchange_declare",
            ["exchange", "exchange_type", "passive", "durable", "auto_delete", "internal", "arguments"],
        ),
        ("exchange_delete", ["exchange", "if_unused"]),
        ("exchange_bind", ["destination", "source", "routing_key", "arguments"]),
        ("exchange_unbind", ["destination", "source", "routing_key", "arguments"]),
        ("basic_publish", ["exchange", "routing_key", "body", "properties", "mandatory", "confirm"]),
        ("consume_messages", ["queue_name", "max_messages", "auto_ack", "inactivity_timeout"]),
        ("ack", ["delivery_tag"]),
        ("nack", ["delivery_tag", "requeue"]),
        ("build_dlq_arguments", ["dlx_exchange", "dlx_routing_key", "message_ttl"]),
    ],
)
def test_a_verb_takes_its_parameters_in_this_order(verb, parameters):
    signature = inspect.signature(getattr(RMQHook("x"), verb))
    positional = [name for name, each in signature.parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD]

    assert positional == parameters


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ((), {"x-dead-letter-exchange": ""}),
        (
            ("dlx", "key", 60),
            {"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": "key", "x-message-ttl": 60},
        ),
    ],
)
def test_dead_letter_arguments_hold_what_was_given(given, arguments):
    assert RMQHook.build_dlq_arguments(*given) == arguments


@pytest.mark.parametrize("ttl", ["60s", -1, True, 1.5])
def test_a_dead_letter_ttl_is_whole_milliseconds(ttl):
    with pytest.raises(ConfigurationError, match="message_ttl"):
        RMQHook.build_dlq_arguments(message_ttl=ttl)


def test_a_wrong_qos_is_refused_at_construction():
    with pytest.raises(ConfigurationError, match="qos"):
        RMQHook(qos={"prefetch": 5})


def test_closing_a_hook_that_never_connected_does_nothing():
    hook = RMQHook("no_such_connection")
    hook.close()
    hook.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Flask-SQLAlchemy's own imports
def test_the_form_shows_the_fields_of_earlier_releases():
    assert list(RMQHook.get_connection_form_widgets()) == ["ssl_enabled", "ca_certs", "certfile", "keyfile"]
    behaviour = RMQHook.get_ui_field_behaviour()
    assert behaviour["hidden_fields"] == []
    assert behaviour["relabeling"] == {"schema": "Virtual Host"}
    assert behaviour["placeholders"]["port"] == "5672"
