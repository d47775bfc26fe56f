"""A wrong argument is an error when the DAG file is read, and says what is allowed."""

import inspect

import pytest

from airflow_provider_rmq.operators.rmq_consume import RMQConsumeOperator
from airflow_provider_rmq.operators.rmq_management import VALID_ACTIONS, RMQQueueManagementOperator
from airflow_provider_rmq.operators.rmq_publish import RMQPublishOperator
from airflow_provider_rmq.sensors.rmq import RMQSensor


@pytest.mark.parametrize("kind", [RMQConsumeOperator, RMQSensor])
def test_a_forgotten_queue_name_is_named(kind):
    """B53."""
    with pytest.raises(Exception, match="queue_name"):
        kind(task_id="t", queue="orders")
    with pytest.raises(ValueError, match="queue_name"):
        kind(task_id="t", queue_name="")


@pytest.mark.parametrize(
    "make",
    [
        lambda: RMQConsumeOperator(task_id="t", queue_name="orders"),
        lambda: RMQSensor(task_id="t", queue_name="orders"),
        lambda: RMQPublishOperator(task_id="t", queue_name="orders"),
        lambda: RMQQueueManagementOperator(task_id="t", action="declare_queue", queue_name="orders"),
    ],
)
def test_the_workers_queue_stays_airflows(make):
    """B53."""
    assert make().queue == "default"


@pytest.mark.parametrize("kind", [RMQConsumeOperator, RMQSensor])
@pytest.mark.parametrize("value", ["false", 0, None])
def test_ack_unmatched_must_be_a_bool(kind, value):
    with pytest.raises(ValueError, match="ack_unmatched"):
        kind(task_id="t", queue_name="q", ack_unmatched=value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_messages": 0}, "max_messages"),
        ({"qos": {"prefetch": 1}}, "qos"),
        ({"filter_headers": "x"}, "filter_headers"),
        ({"filter_callable": "no path"}, "filter_callable"),
    ],
)
def test_a_wrong_argument_of_the_consume_operator_is_named(given, words):
    with pytest.raises(ValueError, match=words):
        RMQConsumeOperator(task_id="t", queue_name="q", **given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"expiration": "60s"}, "expiration"),
        ({"delivery_mode": 5}, "delivery_mode"),
        ({"headers": {"a": object()}}, r"headers\['a'\]"),
        ({"queue_name": ""}, "queue_name"),
        ({"confirm": "no"}, "confirm"),
        ({"mandatory": 0}, "mandatory"),
    ],
)
def test_a_wrong_argument_of_the_publish_operator_is_named(given, words):
    with pytest.raises(ValueError, match=words):
        RMQPublishOperator(task_id="t", **given)


def test_confirms_and_mandatory_are_on_by_default():
    operator = RMQPublishOperator(task_id="t", queue_name="q", exchange="e", routing_key="k")

    assert (operator.confirm, operator.mandatory) == (True, True)
    assert (operator.exchange, operator.routing_key) == ("", "q")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"action": "drop"}, "Invalid action 'drop'.*declare_queue"),
        ({"action": "declare_queue"}, "needs queue_name"),
        ({"action": "bind_queue", "queue_name": "q"}, "needs exchange_name"),
        ({"action": "bind_exchange"}, "needs exchange_name, source_exchange"),
        ({"action": "declare_queue", "queue_name": "q", "queue_type": "lazy"}, "classic, quorum, stream"),
        ({"action": "declare_queue", "queue_name": "q", "queue_type": "quorum"}, "durable=True"),
        (
            {
                "action": "declare_queue",
                "queue_name": "q",
                "durable": True,
                "queue_type": "quorum",
                "arguments": {"x-queue-type": "classic"},
            },
            "contradicts",
        ),
        ({"action": "purge_queue", "queue_name": "q", "queue_type": "quorum"}, "declare_queue"),
    ],
)
def test_a_wrong_argument_of_the_management_operator_is_named(given, words):
    with pytest.raises(ValueError, match=words):
        RMQQueueManagementOperator(task_id="t", **given)


def test_there_are_nine_actions():
    assert VALID_ACTIONS == (
        "declare_queue",
        "delete_queue",
        "purge_queue",
        "bind_queue",
        "unbind_queue",
        "declare_exchange",
        "delete_exchange",
        "bind_exchange",
        "unbind_exchange",
    )


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (RMQPublishOperator, ("exchange", "routing_key", "message")),
        (RMQConsumeOperator, ("queue_name",)),
        (RMQQueueManagementOperator, ("queue_name", "exchange_name", "routing_key", "arguments")),
        (RMQSensor, ("queue_name", "message_wait_timeout")),
    ],
)
def test_template_fields_and_colour_are_those_of_earlier_releases(kind, fields):
    assert tuple(kind.template_fields) == fields
    assert kind.ui_color == "#ff6600"


@pytest.mark.parametrize("kind", [RMQPublishOperator, RMQConsumeOperator, RMQQueueManagementOperator, RMQSensor])
def test_arguments_are_given_by_name(kind):
    kinds = {each.kind for name, each in inspect.signature(kind.__init__).parameters.items() if name != "self"}

    assert kinds <= {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD}
