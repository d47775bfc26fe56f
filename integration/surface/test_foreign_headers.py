"""Headers as the world sends them are read by one rule, by all four readers, and never cost the connection."""

import asyncio
import json
import logging
import struct

import pika
import pytest

from airflow_provider_rmq.errors import BrokerError
from airflow_provider_rmq.operators.rmq_consume import RMQConsumeOperator
from airflow_provider_rmq.sensors.rmq import RMQSensor
from airflow_provider_rmq.triggers.rmq import RMQTrigger
from integration.lab.waiting import wait_until
from integration.surface.raw_headers import field, publish_raw


def consume(queue, **given):
    return RMQConsumeOperator(task_id="t", queue_name=queue, **given).execute({})


def by_operator(queue, filter_headers=None):
    return next(iter(consume(queue, filter_headers=filter_headers, max_messages=1)), None)


def by_sensor(queue, filter_headers=None):
    return RMQSensor(task_id="t", queue_name=queue, filter_headers=filter_headers).poke({}).xcom_value


def by_trigger(mode):
    def take(queue, filter_headers=None):
        """What a deferred sensor returns; None stands for "still waiting"."""
        waiting = RMQTrigger("rmq_default", queue, {"filter_headers": filter_headers}, poll_interval=0.1, mode=mode)

        async def first():
            running = waiting.run()
            try:
                return (await asyncio.wait_for(anext(running), 1)).payload
            except asyncio.TimeoutError:
                return {"message": None}
            finally:
                await running.aclose()

        event = asyncio.run(first())
        if event.get("status") == "error":
            raise BrokerError(event["error"])
        return event["message"]

    return take


readers = pytest.mark.parametrize(
    "take",
    [
        pytest.param(by_operator, id="operator"),
        pytest.param(by_sensor, id="sensor"),
        pytest.param(by_trigger("pull"), id="pull"),
        pytest.param(by_trigger("push"), id="push"),
    ],
)


@readers
@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (1772000000, "2026-02-25T06:13:20+00:00"),
        (1772000000000, "2026-02-25T06:13:20+00:00"),
        (2**64 - 14256000, "1969-07-20T00:00:00+00:00"),
        (2**63 - 1, 2**63 - 1),
    ],
)
def test_a_timestamp_is_a_moment_in_seconds_or_milliseconds_or_stays_a_number(
    vhost, queue_name, airflow_connection, number, shown, take
):
    """B01: milliseconds, and a moment before 1970 as Java writes it."""
    vhost.declare(queue_name)
    publish_raw(vhost, queue_name, field("ts", b"T", struct.pack(">Q", number)))

    assert take(queue_name)["headers"] == {"ts": shown}


@readers
def test_a_routing_key_that_is_no_utf8_costs_no_connection(vhost, queue_name, airflow_connection, take):
    """B01, the other part of a delivery that a client library decodes."""
    vhost.declare(queue_name)
    with vhost.channel() as channel:
        channel.queue_bind(queue_name, "amq.fanout")
        publish = pika.spec.Basic.Publish(exchange="amq.fanout", routing_key="k##")
        raw = pika.frame.Method(channel.channel_number, publish).marshal().replace(b"k##", b"k\xff\xfe")
        header = pika.frame.Header(channel.channel_number, 4, pika.BasicProperties()).marshal()
        body = pika.frame.Body(channel.channel_number, b"body").marshal()
        channel._impl.connection._output_marshaled_frames([raw + header + body])
        channel.connection.process_data_events(0)
        wait_until(lambda: vhost.depth(queue_name) == 1, 5, "the message")

    found = take(queue_name)

    assert (found["routing_key"], found["body"]) == ("k\ufffd\ufffd", "body")


@readers
def test_bytes_in_a_header_reach_xcom_as_base64_and_other_headers_still_match(
    vhost, queue_name, airflow_connection, take
):
    """B03."""
    vhost.declare(queue_name)
    fields = field("x-amqp-1.0-app-properties", b"S", struct.pack(">I", 3) + b"\xff\xfe\x80")
    publish_raw(vhost, queue_name, fields + field("kind", b"S", struct.pack(">I", 5) + b"order"))

    found = take(queue_name, {"kind": "order"})

    assert found["headers"] == {"x-amqp-1.0-app-properties": {"base64": "//6A"}, "kind": "order"}


@readers
@pytest.mark.parametrize(("expected", "matches"), [({"ratio": 1.5}, True), ({"ratio": 1}, False)])
@pytest.mark.parametrize(("code", "layout"), [(b"d", ">d"), (b"f", ">f")])
def test_a_float_keeps_its_fraction(vhost, queue_name, airflow_connection, expected, matches, code, layout, take):
    """B05, R05."""
    vhost.declare(queue_name)
    publish_raw(vhost, queue_name, field("ratio", code, struct.pack(layout, 1.5)))

    assert (take(queue_name, expected) is not None) is matches


def test_every_type_of_field_becomes_json(vhost, queue_name, airflow_connection):
    vhost.declare(queue_name)
    nested = struct.pack(">I", 2) + b"\x01aV"
    publish_raw(
        vhost,
        queue_name,
        b"".join(
            [
                field("x", b"x", struct.pack(">I", 2) + b"\x00\xff"),
                field("D", b"D", struct.pack(">BI", 2, 314)),
                field("F", b"F", struct.pack(">I", 3) + b"\x01aV"),
                field("A", b"A", struct.pack(">I", 3) + b"t\x01V"),
                field("b", b"b", b"\xff"),
                field("B", b"B", b"\xff"),
                field("s", b"s", struct.pack(">h", -2)),
                field("u", b"u", struct.pack(">H", 65535)),
                field("I", b"I", struct.pack(">i", -3)),
                field("i", b"i", struct.pack(">I", 2**32 - 1)),
                field("l", b"l", struct.pack(">q", -(2**63))),
            ]
        ),
    )
    assert len(nested) == 7

    (found,) = consume(queue_name)

    assert found["headers"] == {
        "x": {"base64": "AP8="},
        "D": "3.14",
        "F": {"a": None},
        "A": [True, None],
        "b": -1,
        "B": 255,
        "s": -2,
        "u": 65535,
        "I": -3,
        "i": 2**32 - 1,
        "l": -(2**63),
    }
    assert json.dumps(found, allow_nan=False)


@readers
def test_a_header_no_rule_can_read_is_one_clear_error_and_the_message_stays(
    vhost, queue_name, airflow_connection, take, caplog
):
    """B01: the task ends at once, without attempts that look like network trouble."""
    caplog.set_level(logging.INFO)
    vhost.declare(queue_name)
    value = b""
    for _ in range(200):
        value = struct.pack(">I", len(value)) + value
        value = b"A" + value
    publish_raw(vhost, queue_name, field("deep", b"A", value[1:]))

    with pytest.raises(BrokerError, match=f"{queue_name}.*header cannot be decoded.*tables within tables"):
        take(queue_name)

    wait_until(lambda: vhost.depth(queue_name) == 1, 5, "the message")
    assert "Waiting goes on" not in caplog.text
    assert "attempt" not in caplog.text


@readers
def test_nested_headers_and_none_arrive_as_they_were_published(vhost, queue_name, airflow_connection, hook, take):
    """B07, (a): a header that is present without a value."""
    vhost.declare(queue_name)
    headers = {"meta": {"tags": ["a", None], "n": 1}, "flag": None, "ok": True, "big": 2**40}
    hook.basic_publish("", queue_name, "x", pika.BasicProperties(headers=headers))

    found = take(queue_name, {"meta": {"tags": ["a", None], "n": 1}, "flag": None})

    assert found["headers"] == headers


def test_a_condition_on_none_is_also_met_by_a_header_that_is_absent(vhost, queue_name, airflow_connection):
    """B07, (b): not told apart from (a), as the documents say."""
    vhost.declare(queue_name)
    vhost.publish(queue_name, "x")

    assert len(consume(queue_name, filter_headers={"flag": None})) == 1


@pytest.mark.parametrize("body", [b"\xff\xfe{{", b'{"name":"Jos\xe9"}', b"", b" ", b"\x00"])
def test_a_body_that_is_no_json_is_returned_whatever_the_policy(vhost, queue_name, airflow_connection, body):
    """B11: an ERROR is never acknowledged."""
    vhost.declare(queue_name)
    vhost.publish(queue_name, body, '{"a": 1}')

    found = consume(queue_name, filter_headers={"body.a": 1}, ack_unmatched=True)

    assert [each["body"] for each in found] == ['{"a": 1}']
    wait_until(lambda: vhost.depth(queue_name) == 1, 5, "the unreadable message")
