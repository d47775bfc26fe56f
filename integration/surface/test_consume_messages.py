"""`consume_messages` hands out deliveries that the caller answers."""

import time

import pytest

from airflow_provider_rmq.errors import ConfigurationError, ConnectionLost, QueueMissing
from airflow_provider_rmq.hooks.rmq import RMQHook
from integration.lab.waiting import wait_until


def test_a_message_is_a_dict_of_method_properties_and_text(hook, vhost, queue_name):
    vhost.declare(queue_name)
    vhost.publish(queue_name, "hällo", headers={"a": 1}, message_id="m1")

    (taken,) = hook.consume_messages(queue_name)

    assert taken["body"] == "hällo"
    assert taken["body_bytes"] == "hällo".encode()
    assert taken["properties"].headers == {"a": 1}
    assert taken["properties"].message_id == "m1"
    assert taken["method"].routing_key == queue_name


@pytest.mark.parametrize("body", [b"\xff\xfe{{", b'{"name":"Jos\xe9"}', b"", b" ", b"\x00"])
def test_a_body_that_is_no_text_does_not_stop_the_others(hook, vhost, queue_name, body):
    """B11, R09."""
    vhost.declare(queue_name)
    vhost.publish(queue_name, body, "good")

    taken = hook.consume_messages(queue_name, max_messages=2)

    assert [each["body_bytes"] for each in taken] == [body, b"good"]
    assert all(isinstance(each["body"], str) for each in taken)


def test_ack_removes_and_nack_returns(hook, vhost, queue_name):
    vhost.declare(queue_name)
    vhost.publish(queue_name, "a", "b")

    first, second = hook.consume_messages(queue_name, max_messages=2)
    hook.ack(first["method"].delivery_tag)
    hook.nack(second["method"].delivery_tag)
    hook.close()

    wait_until(lambda: vhost.depth(queue_name) == 1, 5, "the returned message")


def test_what_was_not_answered_is_back_when_the_hook_closes(hook, vhost, queue_name):
    vhost.declare(queue_name)
    vhost.publish(queue_name, *map(str, range(5)))

    assert len(hook.consume_messages(queue_name, max_messages=5)) == 5
    assert vhost.depth(queue_name) == 0
    hook.close()

    wait_until(lambda: vhost.depth(queue_name) == 5, 5, "all five messages")


def test_an_answer_after_the_channel_is_gone_says_that_the_message_is_back(hook, vhost, queue_name):
    vhost.declare(queue_name)
    vhost.publish(queue_name, "a")
    (taken,) = hook.consume_messages(queue_name)
    hook.close()

    with pytest.raises(ConnectionLost, match="back in its queue"):
        hook.ack(taken["method"].delivery_tag)


@pytest.mark.parametrize("auto_ack", [False, True])
def test_no_more_than_asked_for_leaves_the_queue(hook, vhost, queue_name, auto_ack):
    vhost.declare(queue_name)
    vhost.publish(queue_name, *map(str, range(10)))

    taken = hook.consume_messages(queue_name, max_messages=3, auto_ack=auto_ack)

    assert [each["body"] for each in taken] == ["0", "1", "2"]
    assert vhost.depth(queue_name) == 7


def test_it_ends_when_nothing_has_come_for_the_inactivity_timeout(hook, vhost, queue_name):
    vhost.declare(queue_name)
    started = time.monotonic()

    assert hook.consume_messages(queue_name, inactivity_timeout=0.3) == []
    assert hook.consume_messages(queue_name, inactivity_timeout=0.3, auto_ack=True) == []

    assert time.monotonic() - started >= 0.6


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_a_full_prefetch_window_does_not_end_it(vhost, queue_name, queue_type, airflow_connection):
    """L28."""
    vhost.declare(queue_name, arguments={"x-queue-type": queue_type})
    vhost.publish(queue_name, *map(str, range(35)))

    with RMQHook(qos={"prefetch_count": 10}) as hook:
        taken = hook.consume_messages(queue_name, max_messages=34)
        assert [each["body"] for each in taken] == [str(number) for number in range(34)]
        for each in taken:
            hook.ack(each["method"].delivery_tag)

    wait_until(lambda: vhost.depth(queue_name) == 1, 5, "the one message that was not asked for")


def test_what_was_acknowledged_one_by_one_does_not_come_again_from_a_quorum_queue(hook, vhost, queue_name):
    vhost.declare(queue_name, arguments={"x-queue-type": "quorum"})
    hook.publish_messages("", queue_name, [str(number) for number in range(2_000)])

    for each in hook.consume_messages(queue_name, max_messages=2_000):
        hook.ack(each["method"].delivery_tag)
    hook.close()

    wait_until(lambda: hook.queue_info(queue_name)["consumer_count"] == 0, 5, "the consumer's end")
    assert hook.consume_messages(queue_name, inactivity_timeout=0.5) == []


def test_a_missing_queue_is_named(hook, queue_name):
    with pytest.raises(QueueMissing, match=queue_name):
        hook.consume_messages(queue_name)


@pytest.mark.parametrize("given", [0, -1, True, "5"])
def test_a_number_of_messages_that_is_none_is_refused(hook, queue_name, given):
    with pytest.raises(ConfigurationError, match="max_messages"):
        hook.consume_messages(queue_name, max_messages=given)
