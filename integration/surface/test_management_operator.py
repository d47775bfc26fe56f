"""Every action of `RMQQueueManagementOperator` on a real broker."""

import pytest

from airflow_provider_rmq.errors import BrokerError, TopologyConflict
from airflow_provider_rmq.operators.rmq_management import RMQQueueManagementOperator


@pytest.fixture
def manage(airflow_connection):
    return lambda action, **given: RMQQueueManagementOperator(task_id="t", action=action, **given).execute({})


def test_a_queue_lives_and_dies(vhost, queue_name, manage, hook):
    assert manage("declare_queue", queue_name=queue_name, durable=True) == {"queue": queue_name, "message_count": 0}
    vhost.publish(queue_name, "a", "b")
    assert manage("declare_queue", queue_name=queue_name, durable=True)["message_count"] == 2

    assert manage("purge_queue", queue_name=queue_name) is None
    assert vhost.depth(queue_name) == 0

    assert manage("delete_queue", queue_name=queue_name, if_empty=True, if_unused=True) is None
    assert hook.queue_info(queue_name)["exists"] is False


def test_exchanges_and_bindings_live_and_die(vhost, queue_name, exchange_name, manage, hook):
    source = f"{exchange_name}.source"
    manage("declare_queue", queue_name=queue_name)
    assert manage("declare_exchange", exchange_name=exchange_name, exchange_type="topic", durable=True) is None
    manage("declare_exchange", exchange_name=source, exchange_type="fanout", auto_delete=False, internal=False)
    manage("bind_queue", queue_name=queue_name, exchange_name=exchange_name, routing_key="a.*")
    manage("bind_exchange", exchange_name=exchange_name, source_exchange=source, routing_key="x")
    hook.basic_publish(source, "a.b", "through both")
    assert vhost.depth(queue_name) == 1

    manage("unbind_exchange", exchange_name=exchange_name, source_exchange=source, routing_key="x")
    with pytest.raises(BrokerError, match="unroutable"):
        hook.basic_publish(source, "a.b", "x")
    manage("unbind_queue", queue_name=queue_name, exchange_name=exchange_name, routing_key="a.*")
    with pytest.raises(BrokerError, match="unroutable"):
        hook.basic_publish(exchange_name, "a.b", "x")

    manage("delete_exchange", exchange_name=source)
    with pytest.raises(BrokerError, match="no exchange"):
        hook.exchange_declare(source, passive=True)


def test_a_queue_type_reaches_the_broker(queue_name, manage):
    manage("declare_queue", queue_name=queue_name, durable=True, queue_type="quorum")

    with pytest.raises(TopologyConflict, match="it has 'quorum'"):
        manage("declare_queue", queue_name=queue_name, durable=True, queue_type="classic")


def test_an_exclusive_queue_is_gone_with_the_task_and_the_log_says_so(queue_name, manage, hook, caplog):
    manage("declare_queue", queue_name=queue_name, exclusive=True)

    assert "deleted when the task ends" in caplog.text
    assert hook.queue_info(queue_name)["exists"] is False
