"""`RMQPublishOperator` succeeds only when the broker has every message."""

import datetime as dt
import logging

import pytest

from airflow_provider_rmq.errors import PublishFailed, Unroutable
from airflow_provider_rmq.operators.rmq_publish import RMQPublishOperator


@pytest.fixture
def publish(airflow_connection):
    return lambda **given: RMQPublishOperator(task_id="t", **given).execute({})


@pytest.fixture
def bodies(hook, queue_name):
    return lambda: [each["body"] for each in hook.consume_messages(queue_name, 100, True, 0.2)]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("text", ["text"]),
        (b"\xff\x00", ["\ufffd\x00"]),
        ({"a": 1}, ['{"a": 1}']),
        (["a", {"b": None}], ["a", '{"b": null}']),
        ("", [""]),
        ({}, ["{}"]),
        (0, ["0"]),
        ((1, 2.5), ["1", "2.5"]),
    ],
)
def test_a_message_of_any_kind_arrives_by_rule(vhost, queue_name, publish, bodies, message, expected):
    vhost.declare(queue_name)

    publish(queue_name=queue_name, message=message)

    assert bodies() == expected


@pytest.mark.parametrize("message", [None, []])
def test_nothing_to_publish_is_a_warning(publish, queue_name, message, caplog):
    caplog.set_level(logging.WARNING)

    publish(queue_name=queue_name, message=message)

    assert "Nothing is published" in caplog.text


def test_all_properties_arrive(vhost, queue_name, publish, hook):
    vhost.declare(queue_name, arguments={"x-max-priority": 5})

    publish(
        queue_name=queue_name,
        message={"a": 1},
        content_type="application/json",
        delivery_mode=2,
        headers={"x": 1, "ratio": 1.5, "at": dt.datetime(2026, 10, 25, 0, 30, tzinfo=dt.timezone.utc)},
        priority=3,
        expiration=60_000,
        correlation_id="c",
        reply_to="r",
        message_id="m",
    )

    properties = hook.consume_messages(queue_name)[0]["properties"]
    assert (properties.content_type, properties.delivery_mode, properties.priority) == ("application/json", 2, 3)
    assert (properties.expiration, properties.correlation_id, properties.reply_to) == ("60000", "c", "r")
    assert properties.message_id == "m"
    assert properties.headers == {
        "x": 1,
        "ratio": 1.5,
        "at": dt.datetime(2026, 10, 25, 0, 30, tzinfo=dt.timezone.utc),
    }


def test_a_missing_queue_fails_the_task(publish, queue_name):
    """B17."""
    with pytest.raises(Unroutable, match=f"default exchange with routing key '{queue_name}'"):
        publish(queue_name=queue_name, message="x")


def test_a_missing_exchange_fails_the_task(publish, exchange_name):
    """B17, R43."""
    with pytest.raises(PublishFailed, match=exchange_name):
        publish(exchange=exchange_name, routing_key="k", message="x")


def test_confirms_and_mandatory_can_be_turned_off(publish, queue_name):
    """B17: the way out."""
    publish(queue_name=queue_name, message="x", mandatory=False)
    publish(queue_name=queue_name, message="x", mandatory=False, confirm=False)


def test_the_default_exchange_takes_the_routing_key_as_queue(vhost, queue_name, publish, bodies):
    vhost.declare(queue_name)

    publish(routing_key=queue_name, message="x")

    assert bodies() == ["x"]
