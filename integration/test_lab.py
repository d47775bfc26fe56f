"""The lab keeps its promises: what the other tests take for granted."""

from __future__ import annotations

import pika.exceptions
import pytest

from integration.lab import faults
from integration.lab.airflow import Login
from integration.lab.fault_proxy import ProxyThread
from integration.lab.postgres import Postgres
from integration.vhost import Vhost


def test_published_messages_are_counted_and_a_deleted_queue_is_gone(vhost, queue_name):
    vhost.declare(queue_name)

    vhost.publish(queue_name, "one", b"two", message_ids=iter(["m1", "m2"]))

    assert vhost.depth(queue_name) == 2
    vhost.delete(queue_name)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        vhost.depth(queue_name)


def test_a_killed_node_comes_back_with_its_messages(broker_lab):
    vhost = Vhost(broker_lab.amqp_url())
    vhost.publish(vhost.declare("kept"), "one")

    broker_lab.kill()
    broker_lab.start()

    assert vhost.depth("kept") == 1


def test_an_alarm_is_reported_when_the_call_returns(broker_lab):
    faults.set_alarm(broker_lab, "memory")
    assert broker_lab.management().get("nodes")[0]["mem_alarm"]

    faults.set_alarm(broker_lab, "memory", raised=False)
    assert not broker_lab.management().get("nodes")[0]["mem_alarm"]


def test_the_broker_closes_client_connections_on_request(broker_lab):
    vhost = Vhost(broker_lab.amqp_url())

    with vhost.channel() as channel:
        faults.close_connections(broker_lab)

        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            channel.connection.process_data_events(time_limit=10)


def test_a_reset_link_is_an_error_for_the_client_and_the_broker_lives_on(broker_lab):
    node = broker_lab.node()
    with ProxyThread(("127.0.0.1", node.amqp)) as proxy:
        through_proxy = Vhost(broker_lab.amqp_url().replace(f":{node.amqp}/", f":{proxy.port}/"))

        with through_proxy.channel() as channel:
            proxy.order("reset")

            with pytest.raises(pika.exceptions.AMQPError):
                channel.connection.process_data_events(time_limit=10)

        with through_proxy.channel() as channel:
            assert channel.is_open


def test_a_killed_postgres_comes_back_with_its_databases(tmp_path):
    with Postgres(tmp_path) as postgres:
        postgres.create_database("kept")

        postgres.kill()
        postgres.start()

        with pytest.raises(Exception, match="already exists"):
            postgres.create_database("kept")
    postgres.remove()


@pytest.mark.parametrize("postgres", [False, True], ids=["sqlite", "postgres"])
def test_a_prepared_airflow_has_its_connection_and_user(airflow_home, postgres):
    home = airflow_home(postgres=postgres)
    home.create_admin(Login("admin", "secret"))

    assert [row["conn_id"] for row in home.rows("SELECT conn_id FROM connection")] == ["rmq_default"]
    assert [row["username"] for row in home.rows("SELECT username FROM ab_user")] == ["admin"]
    assert home.dag_runs("none") == []
