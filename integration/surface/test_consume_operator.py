"""`RMQConsumeOperator` returns one batch, and acknowledges nothing before all of it is judged."""

import logging
import socket

import pytest

from airflow_provider_rmq.errors import ConnectionLost
from airflow_provider_rmq.operators.rmq_consume import RMQConsumeOperator
from integration.lab.waiting import wait_until


@pytest.fixture
def consume(queue_name, airflow_connection):
    def run(**given):
        return RMQConsumeOperator(task_id="t", queue_name=queue_name, **given).execute({})

    return run


def left(vhost, queue_name, count):
    wait_until(lambda: vhost.depth(queue_name) == count, 5, f"{count} messages in the queue")


def test_matches_are_acknowledged_and_returned_misses_go_back(vhost, queue_name, consume):
    vhost.declare(queue_name)
    vhost.publish(queue_name, '{"a": 1}', '{"a": 2}', '{"a": 1}', headers={"k": "v"})

    assert (
        consume(filter_headers={"body.a": 1, "k": "v"})
        == [{"body": '{"a": 1}', "headers": {"k": "v"}, "routing_key": queue_name, "exchange": ""}] * 2
    )
    left(vhost, queue_name, 1)


def test_with_ack_unmatched_misses_are_gone_and_the_log_says_how_many(vhost, queue_name, consume, caplog):
    vhost.declare(queue_name)
    vhost.publish(queue_name, '{"a": 1}', '{"a": 2}', "nope")

    consume(filter_headers={"body.a": 3}, ack_unmatched=True)

    left(vhost, queue_name, 1)
    assert "none of the 2 messages of this batch passed the filter" in caplog.text
    assert "2 did not pass the filter and were dropped" in caplog.text


def test_a_callable_judges_properties_and_text(vhost, queue_name, consume):
    vhost.declare(queue_name)
    vhost.publish(queue_name, "urgent", "later", message_id="m")

    found = consume(filter_callable=lambda properties, body: properties.message_id == "m" and "urgent" in body)

    assert [each["body"] for each in found] == ["urgent"]


def test_a_message_the_callable_fails_on_goes_back_whatever_the_policy(vhost, queue_name, consume, caplog):
    vhost.declare(queue_name)
    vhost.publish(queue_name, *map(str, range(5)))

    assert consume(filter_callable=lambda _properties, body: 1 / int(body) > 0.4, ack_unmatched=True) != []

    left(vhost, queue_name, 1)
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("max_messages", [1, 3, 7])
def test_no_message_behind_the_batch_is_touched(vhost, queue_name, consume, max_messages):
    vhost.declare(queue_name, arguments={"x-queue-type": "quorum"})
    vhost.publish(queue_name, *map(str, range(7)))

    assert len(consume(max_messages=max_messages, qos={"prefetch_count": 2})) == max_messages

    left(vhost, queue_name, 7 - max_messages)
    assert all(
        "x-delivery-count" not in each["headers"] or each["headers"]["x-delivery-count"] == 0 for each in consume()
    )


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_ten_thousand_come_through_a_window_of_a_hundred(vhost, queue_name, consume, hook, queue_type):
    """L28."""
    vhost.declare(queue_name, arguments={"x-queue-type": queue_type})
    hook.publish_messages("", queue_name, [str(number) for number in range(10_000)])

    found = consume(max_messages=10_000, qos={"prefetch_count": 100})

    assert [each["body"] for each in found] == [str(number) for number in range(10_000)]
    left(vhost, queue_name, 0)


def test_many_single_acknowledgements_reach_a_quorum_queue(vhost, queue_name, consume, hook):
    vhost.declare(queue_name, arguments={"x-queue-type": "quorum"})
    hook.publish_messages("", queue_name, [str(number % 2) for number in range(10_000)])

    found = consume(max_messages=10_000, filter_callable=lambda _properties, body: body == "1")

    assert len(found) == 5_000
    left(vhost, queue_name, 5_000)


def test_misses_that_go_back_do_not_fill_the_window(vhost, queue_name, consume):
    vhost.declare(queue_name)
    vhost.publish(queue_name, *["miss"] * 50, "match")

    found = consume(filter_callable=lambda _properties, body: body == "match", qos={"prefetch_count": 5})

    assert [each["body"] for each in found] == ["match"]
    left(vhost, queue_name, 50)


class Killed(BaseException):
    """Stands for what Airflow raises in a task at SIGTERM and at `execution_timeout`."""


def test_a_task_killed_in_the_middle_of_a_batch_leaves_every_message(vhost, queue_name, consume):
    vhost.declare(queue_name)
    vhost.publish(queue_name, *map(str, range(20)))

    def judge(_properties, body):
        if body == "15":
            # An ordinary error of a callable is an ERROR verdict; this one is not.
            raise Killed
        return True

    with pytest.raises(Killed):
        consume(filter_callable=judge, qos={"prefetch_count": 4})

    left(vhost, queue_name, 20)


def test_a_connection_lost_before_the_end_leaves_every_message(vhost, queue_name, consume):
    vhost.declare(queue_name)
    vhost.publish(queue_name, *map(str, range(20)))
    hooks = []

    import airflow_provider_rmq.operators.rmq_consume as module

    original = module.RMQHook

    def remember(*given, **named):
        hooks.append(original(*given, **named))
        return hooks[-1]

    def judge(_properties, body):
        if body == "15":
            transport = hooks[-1].get_conn()._impl._transport
            transport._sock.shutdown(socket.SHUT_RDWR)
        return True

    module.RMQHook = remember
    try:
        with pytest.raises(ConnectionLost):
            consume(filter_callable=judge)
    finally:
        module.RMQHook = original

    left(vhost, queue_name, 20)


def test_a_missing_queue_is_an_empty_batch_and_a_warning(consume, caplog):
    caplog.set_level(logging.WARNING)

    assert consume() == []
    assert "Nothing is consumed" in caplog.text


def test_an_empty_queue_is_an_empty_batch(vhost, queue_name, consume):
    vhost.declare(queue_name)

    assert consume() == []


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_global_qos_works_on_every_queue_and_warns_where_it_cannot_hold(vhost, queue_name, consume, caplog, queue_type):
    """R37."""
    vhost.declare(queue_name, arguments={"x-queue-type": queue_type})
    vhost.publish(queue_name, *map(str, range(7)))

    assert len(consume(qos={"prefetch_count": 2, "global_qos": True})) == 7
    assert ("knows no global QoS" in caplog.text) is (queue_type == "quorum")


def test_the_type_of_the_queue_on_the_broker_decides_not_a_declaration(
    vhost, queue_name, hook, airflow_connection, caplog
):
    from airflow_provider_rmq.hooks.rmq import RMQHook

    vhost.declare(queue_name, arguments={"x-queue-type": "quorum"})
    vhost.publish(queue_name, "a", "b", "c")

    with RMQHook(qos={"prefetch_count": 1, "global_qos": True}) as limited:
        limited.queue_declare(queue_name, passive=True)
        assert len(limited.consume_messages(queue_name, max_messages=3)) == 3
    assert "knows no global QoS" in caplog.text


def test_a_stream_needs_an_offset_and_keeps_its_messages(vhost, queue_name, consume):
    vhost.declare(queue_name, arguments={"x-queue-type": "stream"})
    vhost.publish(queue_name, *map(str, range(30)))

    with pytest.raises(ValueError, match="stream_offset"):
        consume()
    for _ in range(2):
        found = consume(stream_offset="first", max_messages=25, qos={"prefetch_count": 10, "global_qos": True})
        assert [each["body"] for each in found] == [str(number) for number in range(25)]
    assert [each["body"] for each in consume(stream_offset=28)] == ["28", "29"]


def test_a_stream_is_read_past_what_the_filter_rejects(vhost, queue_name, consume):
    vhost.declare(queue_name, arguments={"x-queue-type": "stream"})
    vhost.publish(queue_name, *map(str, range(30)))

    found = consume(
        stream_offset="first", filter_callable=lambda _properties, body: body == "25", qos={"prefetch_count": 3}
    )

    assert [each["body"] for each in found] == ["25"]


def test_an_offset_on_another_queue_is_refused(vhost, queue_name, consume):
    vhost.declare(queue_name)

    with pytest.raises(ValueError, match="classic queue; only streams"):
        consume(stream_offset="first")


def test_a_gzip_bomb_goes_back(vhost, queue_name, consume):
    import gzip

    vhost.declare(queue_name)
    bomb = gzip.compress(b"\0" * (64 * 1024 * 1024))
    vhost.publish(queue_name, bomb, gzip.compress(b'{"status": "active"}'), content_encoding="gzip")

    found = consume(filter_headers={"body.status": "active"}, ack_unmatched=True)

    assert [each["body"] for each in found] == ['{"status": "active"}']
    left(vhost, queue_name, 1)
