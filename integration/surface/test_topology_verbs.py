"""The hook's verbs for queues and exchanges do what their names say."""

import pytest

from airflow_provider_rmq.errors import BrokerError, ConfigurationError, QueueMissing, TopologyConflict
from integration.lab.waiting import wait_until


def test_a_queue_is_declared_described_purged_and_deleted(hook, vhost, queue_name):
    frame = hook.queue_declare(queue_name, durable=True)
    assert frame.method.queue == queue_name
    assert hook.queue_info(queue_name) == {
        "queue": queue_name,
        "message_count": 0,
        "consumer_count": 0,
        "exists": True,
    }

    vhost.publish(queue_name, "a", "b")
    assert hook.queue_info(queue_name)["message_count"] == 2
    assert hook.queue_purge(queue_name).method.message_count == 2

    hook.queue_delete(queue_name)
    assert hook.queue_info(queue_name) == {"queue": queue_name, "message_count": 0, "exists": False}


def test_the_hook_stays_usable_after_a_refusal(hook, queue_name):
    hook.queue_info(queue_name)
    with pytest.raises(QueueMissing, match=queue_name):
        hook.queue_declare(queue_name, passive=True)

    assert hook.queue_declare(queue_name).method.queue == queue_name


def test_a_queue_is_bound_and_unbound(hook, vhost, queue_name, exchange_name):
    hook.queue_declare(queue_name)
    hook.exchange_declare(exchange_name, "topic", durable=True)

    hook.queue_bind(queue_name, exchange_name, "orders.*")
    hook.basic_publish(exchange_name, "orders.new", "x")
    assert vhost.depth(queue_name) == 1

    hook.queue_unbind(queue_name, exchange_name, "orders.*")
    with pytest.raises(BrokerError, match="unroutable"):
        hook.basic_publish(exchange_name, "orders.new", "x")


def test_an_exchange_is_bound_to_another_and_unbound(hook, vhost, queue_name, exchange_name):
    source = f"{exchange_name}.source"
    hook.exchange_declare(exchange_name, "fanout", auto_delete=False)
    hook.exchange_declare(source, "direct")
    hook.queue_declare(queue_name)
    hook.queue_bind(queue_name, exchange_name)

    hook.exchange_bind(exchange_name, source, "k")
    hook.basic_publish(source, "k", "x")
    assert vhost.depth(queue_name) == 1

    hook.exchange_unbind(exchange_name, source, "k")
    with pytest.raises(BrokerError, match="unroutable"):
        hook.basic_publish(source, "k", "x")
    hook.exchange_delete(source)


def test_conditional_deletion_keeps_what_is_in_use(hook, vhost, queue_name, exchange_name):
    hook.queue_declare(queue_name, durable=True)
    vhost.publish(queue_name, "x")
    hook.exchange_declare(exchange_name)
    hook.queue_bind(queue_name, exchange_name, "k")

    with pytest.raises(BrokerError, match="not empty"):
        hook.queue_delete(queue_name, if_empty=True)
    with pytest.raises(BrokerError, match="in use"):
        hook.exchange_delete(exchange_name, if_unused=True)
    assert vhost.depth(queue_name) == 1


@pytest.mark.parametrize("queue_type", ["classic", "quorum", "stream"])
def test_a_queue_type_is_declared_as_a_parameter(hook, queue_name, queue_type):
    hook.queue_declare(queue_name, durable=True, queue_type=queue_type)

    other = "classic" if queue_type != "classic" else "quorum"
    with pytest.raises(TopologyConflict, match=f"x-queue-type: given was '{other}', it has '{queue_type}'"):
        hook.queue_declare(queue_name, durable=True, queue_type=other)


def test_a_queue_with_other_properties_is_named_with_both_values(hook, queue_name):
    hook.queue_declare(queue_name, durable=True)

    with pytest.raises(TopologyConflict, match="durable: given was 'false', it has 'true'"):
        hook.queue_declare(queue_name, durable=False)


def test_a_queue_that_is_exclusive_elsewhere_exists_with_unknown_counts(hook, queue_name, airflow_connection):
    """B47, R41."""
    from airflow_provider_rmq.hooks.rmq import RMQHook

    with RMQHook() as owner:
        owner.queue_declare(queue_name, exclusive=True)

        assert hook.queue_info(queue_name) == {
            "queue": queue_name,
            "message_count": None,
            "consumer_count": None,
            "exists": True,
        }
        with pytest.raises(TopologyConflict, match="exclusive to the connection that declared it"):
            hook.queue_declare(queue_name)
    assert hook.queue_info(queue_name)["exists"] is False


def test_the_owner_of_an_exclusive_queue_is_named_where_the_management_api_tells(
    queue_name, airflow_connection, management_url
):
    """B47."""
    from airflow_provider_rmq.hooks.rmq import RMQHook

    airflow_connection("asking", extra={"management_url": management_url})
    with RMQHook() as owner, RMQHook("asking") as other:
        owner.queue_declare(queue_name, exclusive=True)
        (host, port) = owner.get_conn()._impl._transport._sock.getsockname()[:2]

        def refusal():
            with pytest.raises(TopologyConflict) as caught:
                other.queue_declare(queue_name)
            return str(caught.value)

        wait_until(lambda: f"It belongs to {host}:{port} -> " in refusal(), 15, "the owner's address", show=refusal)


@pytest.mark.parametrize(
    ("name", "words"), [("q" * 256, "256 bytes"), ("я" * 128, "256 bytes"), ("x\ny", "line end"), (5, "str")]
)
def test_a_name_no_broker_takes_is_refused_before_the_wire(hook, name, words):
    """R19."""
    with pytest.raises(ConfigurationError, match=words):
        hook.queue_declare(name)


def test_a_reserved_name_is_refused_in_words(hook):
    with pytest.raises(BrokerError, match="belong to RabbitMQ"):
        hook.queue_declare("amq.test")


def test_dead_letter_arguments_lead_a_rejected_message_to_its_queue(hook, vhost, queue_name):
    dead = f"{queue_name}.dead"
    hook.queue_declare(dead)
    hook.queue_declare(queue_name, arguments=hook.build_dlq_arguments("", dead, 60_000))
    hook.basic_publish("", queue_name, "x")

    (taken,) = hook.consume_messages(queue_name)
    hook.nack(taken["method"].delivery_tag, requeue=False)
    hook.close()

    assert vhost.depth(dead) == 1
    vhost.delete(dead)
