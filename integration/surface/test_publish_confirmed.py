"""A publish that the broker did not take fails, and says which messages are where."""

import pika
import pytest

from airflow_provider_rmq.errors import PublishFailed, Unroutable
from airflow_provider_rmq.hooks.rmq import RMQHook


def test_a_batch_arrives_complete_and_in_order(hook, vhost, queue_name):
    vhost.declare(queue_name)
    bodies = [str(number) for number in range(3000)]

    hook.publish_messages("", queue_name, bodies, pika.BasicProperties(delivery_mode=2, headers={"ratio": 1.5}))

    assert vhost.depth(queue_name) == 3000
    taken = hook.consume_messages(queue_name, max_messages=3000, auto_ack=True)
    assert [each["body"] for each in taken] == bodies
    assert taken[-1]["properties"].headers == {"ratio": 1.5}
    assert taken[-1]["properties"].delivery_mode == 2


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 3_000_000])
def test_a_body_of_any_size_arrives_unchanged(hook, vhost, queue_name, size):
    vhost.declare(queue_name)
    body = bytes(number % 251 for number in range(1000)) * (size // 1000 + 1)

    hook.basic_publish("", queue_name, body[:size])

    assert hook.consume_messages(queue_name)[0]["body_bytes"] == body[:size]


def test_a_message_no_queue_takes_fails_with_exchange_and_routing_key(hook, queue_name):
    with pytest.raises(Unroutable, match=f"default exchange with routing key '{queue_name}': unroutable") as caught:
        hook.basic_publish("", queue_name, "x")
    assert caught.value.report.unroutable == (0,)


def test_a_missing_exchange_fails_with_its_name_and_nothing_else_is_sent(hook, exchange_name):
    with pytest.raises(PublishFailed, match=f"no exchange '{exchange_name}'") as caught:
        hook.publish_messages(exchange_name, "k", ["a", "b", "c"])

    assert caught.value.report.refused == (0,)
    assert caught.value.report.not_sent == (1, 2)


def test_the_hook_publishes_on_after_each_failure(hook, vhost, queue_name, exchange_name):
    vhost.declare(queue_name)
    for exchange, key in ((exchange_name, "k"), ("", f"{queue_name}.missing")):
        with pytest.raises(PublishFailed):
            hook.basic_publish(exchange, key, "x")
        hook.basic_publish("", queue_name, "y")

    assert vhost.depth(queue_name) == 2


def test_a_full_queue_that_rejects_fails_and_names_the_refused_indexes(hook, vhost, queue_name):
    vhost.declare(queue_name, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})

    with pytest.raises(PublishFailed, match="reject-publish") as caught:
        hook.publish_messages("", queue_name, [str(number) for number in range(2000)])

    report = caught.value.report
    assert report.confirmed == (0, 1)
    assert report.refused
    assert report.unknown == ()
    assert len(report.confirmed + report.refused + report.not_sent) == 2000


def test_two_in_a_row_into_a_queue_of_one(hook, vhost, queue_name):
    """R43."""
    vhost.declare(queue_name, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    hook.basic_publish("", queue_name, "first")

    with pytest.raises(PublishFailed):
        hook.basic_publish("", queue_name, "second")
    assert vhost.depth(queue_name) == 1


def test_without_mandatory_an_unroutable_message_is_dropped(hook, queue_name):
    hook.basic_publish("", queue_name, "x", mandatory=False)


def test_without_confirms_messages_arrive_too(vhost, queue_name, airflow_connection):
    vhost.declare(queue_name)

    with RMQHook() as hook:
        hook.publish_messages("", queue_name, ["a"] * 100, confirm=False)

    assert vhost.depth(queue_name) == 100


def test_a_return_without_confirms_is_a_line_in_the_log(hook, queue_name, caplog):
    hook.basic_publish("", queue_name, "x", confirm=False)
    hook.get_channel().connection.process_data_events(1)

    assert "NO_ROUTE" in caplog.text


def test_all_messages_of_a_batch_without_a_queue_are_told_apart(hook, queue_name):
    with pytest.raises(Unroutable) as caught:
        hook.publish_messages("", queue_name, ["same"] * 10)

    assert caught.value.report.unroutable == (0,)
    assert caught.value.report.not_sent == tuple(range(1, 10))
