"""`RMQSensor` on a worker: looks no further than it must and returns what it does not take."""

import pytest

from airflow_provider_rmq.errors import BrokerError
from airflow_provider_rmq.sensors.rmq import RMQSensor
from integration.lab.waiting import wait_until


@pytest.fixture
def sensor(queue_name, airflow_connection):
    return lambda **given: RMQSensor(task_id="t", queue_name=queue_name, **given)


def left(vhost, queue_name, count):
    wait_until(lambda: vhost.depth(queue_name) == count, 5, f"{count} messages in the queue")


def test_the_first_match_is_acknowledged_and_returned(vhost, queue_name, sensor):
    vhost.declare(queue_name)
    vhost.publish(queue_name, '{"a": 1}', '{"a": 2}', '{"a": 2}')

    found = sensor(filter_headers={"body.a": 2}).poke({})

    assert found.is_done
    assert found.xcom_value == {"body": '{"a": 2}', "headers": {}, "routing_key": queue_name, "exchange": ""}
    left(vhost, queue_name, 2)


def test_without_a_match_everything_stays(vhost, queue_name, sensor):
    vhost.declare(queue_name)
    vhost.publish(queue_name, "a", "b")

    found = sensor(filter_callable=lambda *_: False).poke({})

    assert (found.is_done, found.xcom_value) == (False, None)
    left(vhost, queue_name, 2)


def test_with_ack_unmatched_what_stands_before_the_match_is_gone(vhost, queue_name, sensor):
    vhost.declare(queue_name)
    vhost.publish(queue_name, "miss", "miss", "match", "behind")

    assert sensor(filter_callable=lambda _, body: body == "match", ack_unmatched=True).poke({}).is_done

    left(vhost, queue_name, 1)


def test_a_missing_and_an_empty_queue_have_no_message_yet(vhost, queue_name, sensor):
    assert not sensor().poke({}).is_done
    vhost.declare(queue_name)
    assert not sensor().poke({}).is_done


def test_a_batch_is_the_most_a_poke_looks_at(vhost, queue_name, sensor):
    vhost.declare(queue_name)
    vhost.publish(queue_name, *["miss"] * 5, "match")
    seen = []

    def judge(_properties, body):
        seen.append(body)
        return body == "match"

    assert not sensor(filter_callable=judge, poke_batch_size=5).poke({}).is_done
    assert len(seen) == 5


def test_misses_add_up_from_poke_to_poke(vhost, queue_name, sensor, caplog):
    vhost.declare(queue_name)
    vhost.publish(queue_name, *["miss"] * 25)
    waiting = sensor(filter_callable=lambda *_: False)

    for _ in range(4):
        waiting.poke({})

    assert caplog.text.count("100 messages in a row missed the filter") == 1


def test_a_poke_costs_a_message_one_delivery_and_what_it_did_not_look_at_none(vhost, queue_name, sensor):
    """B43, R35: the fourth return of a limit of three loses it."""
    vhost.declare(queue_name, arguments={"x-queue-type": "quorum", "x-delivery-limit": 3})
    vhost.publish(queue_name, *map(str, range(5)))
    waiting = sensor(filter_callable=lambda *_: False, poke_batch_size=2)

    for _ in range(3):
        waiting.poke({})
    left(vhost, queue_name, 5)

    waiting.poke({})
    left(vhost, queue_name, 3)


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({"x-queue-type": "quorum", "x-delivery-limit": 3}, 1),
        ({"x-queue-type": "quorum", "x-delivery-limit": 3, "x-dead-letter-exchange": "amq.fanout"}, 0),
        ({"x-queue-type": "classic"}, 0),
    ],
)
def test_a_delivery_limit_without_a_dead_letter_exchange_is_named_once(
    vhost, queue_name, sensor, airflow_connection, management_url, caplog, arguments, count
):
    """B43: the management API knows, so it needs the extra management_url."""
    airflow_connection("limits", extra={"management_url": management_url})
    vhost.declare(queue_name, arguments=arguments)
    vhost.publish(queue_name, "a", "b")
    waiting = sensor(rmq_conn_id="limits", filter_callable=lambda *_: False)

    for _ in range(3):
        waiting.poke({})

    assert caplog.text.count("drops a message when it is returned for the 4. time") == count


def test_the_whole_sensor_returns_the_message(vhost, queue_name, sensor):
    vhost.declare(queue_name)
    vhost.publish(queue_name, "x")

    assert sensor(poke_interval=0.1, timeout=5).execute({})["body"] == "x"


def test_a_stream_is_refused_in_words(vhost, queue_name, sensor):
    vhost.declare(queue_name, arguments={"x-queue-type": "stream"})

    with pytest.raises(BrokerError, match="cannot be polled"):
        sensor().poke({})
