"""A deferred sensor hands everything to its trigger and reads the trigger's event."""

import datetime as dt

import pytest
from airflow.exceptions import AirflowSkipException, TaskDeferred

from airflow_provider_rmq.sensors import rmq
from airflow_provider_rmq.sensors.rmq import RMQSensor


def importable(_properties, _body):
    return True


def sensor(**given):
    return RMQSensor(task_id="t", queue_name="orders", **given)


def deferred(**given):
    with pytest.raises(TaskDeferred) as caught:
        sensor(deferrable=True, **given).execute({})
    return caught.value


def test_the_trigger_gets_all_arguments():
    event = deferred(
        rmq_conn_id="other",
        filter_headers={"a": 1},
        mode="push",
        message_wait_timeout="60.5",
        ack_unmatched=True,
        timeout=600,
    )

    assert event.method_name == "execute_complete"
    assert event.timeout == dt.timedelta(seconds=600)
    assert event.trigger.serialize() == (
        "airflow_provider_rmq.triggers.rmq.RMQTrigger",
        {
            "rmq_conn_id": "other",
            "queue_name": "orders",
            "filter_data": {"filter_headers": {"a": 1}},
            "poll_interval": 5.0,
            "mode": "push",
            "message_wait_timeout": 60.5,
            "ack_unmatched": True,
        },
    )


@pytest.mark.parametrize("accepts", ["test_sensor_deferral:importable", importable])
def test_a_callable_reaches_the_trigger_as_its_path(accepts):
    filter_data = deferred(filter_callable=accepts).trigger.serialize()[1]["filter_data"]

    assert filter_data["filter_callable"] == "test_sensor_deferral:importable"


def test_a_lambda_cannot_be_deferred():
    with pytest.raises(ValueError, match=r"callable-based filters.*lambda.*package\.module:function"):
        sensor(deferrable=True, filter_callable=lambda *_: True)


@pytest.mark.parametrize(
    ("default", "accepts", "expected"), [(True, None, True), (False, None, False), (True, "λ", False)]
)
def test_airflows_default_decides_where_nothing_is_given(monkeypatch, default, accepts, expected):
    monkeypatch.setattr(rmq, "default_deferrable", lambda: default)

    assert sensor(filter_callable=(lambda *_: True) if accepts else None).deferrable is expected
    assert sensor(deferrable=False).deferrable is False


@pytest.mark.parametrize(("given", "seconds"), [("5", 5.0), (5, 5.0), ("", None), ("None", None), (None, None)])
def test_a_rendered_wait_timeout_becomes_seconds(given, seconds):
    waiting = sensor(deferrable=True, mode="push", message_wait_timeout="{{ x }}")
    waiting.message_wait_timeout = given

    with pytest.raises(TaskDeferred) as caught:
        waiting.execute({})
    assert caught.value.trigger.message_wait_timeout == seconds


@pytest.mark.parametrize("given", ["soon", "-1", "nan", []])
def test_a_wait_timeout_that_is_no_number_is_named(given):
    waiting = sensor(deferrable=True, mode="push", message_wait_timeout="{{ x }}")
    waiting.message_wait_timeout = given

    with pytest.raises(ValueError, match="message_wait_timeout"):
        waiting.execute({})


def test_a_message_is_the_return_value():
    assert sensor().execute_complete({}, {"status": "success", "message": {"body": "x"}}) == {"body": "x"}


def test_a_timeout_skips_and_names_the_queue():
    with pytest.raises(AirflowSkipException, match="orders"):
        sensor().execute_complete({}, {"status": "timeout"})


@pytest.mark.parametrize(
    ("event", "text"),
    [({"status": "error", "error": "boom"}, "boom"), ({"status": "error"}, "unknown error"), (None, "unknown error")],
)
def test_anything_else_is_an_error_with_its_text(event, text):
    with pytest.raises(RuntimeError, match=text):
        sensor().execute_complete({}, event)
