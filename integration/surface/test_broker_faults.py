"""What publishing and consuming say when the broker or the link fails in the middle."""

import socket
import threading
import time
from urllib.parse import urlsplit

import pytest

from airflow_provider_rmq.errors import ConnectionLost, PublishFailed
from airflow_provider_rmq.hooks.rmq import RMQHook
from airflow_provider_rmq.operators import rmq_consume
from airflow_provider_rmq.operators.rmq_consume import RMQConsumeOperator
from airflow_provider_rmq.operators.rmq_publish import RMQPublishOperator
from integration.lab import faults
from integration.lab.fault_proxy import ProxyThread
from integration.lab.waiting import wait_until


@pytest.fixture
def in_lab(fault_lab, airflow_connection):
    """Make an Airflow connection to the lab."""

    def make(**extra):
        parts = urlsplit(fault_lab.amqp_url())
        return airflow_connection(
            "lab", host="127.0.0.1", port=parts.port, login="guest", password="guest", schema="/", extra=extra
        )

    return make


@pytest.fixture
def proxied(broker_url, airflow_connection):
    """Make an Airflow connection to the test broker through a proxy; yields both."""
    parts = urlsplit(broker_url)
    with ProxyThread((parts.hostname, parts.port)) as proxy:
        yield proxy, lambda **extra: airflow_connection("proxied", host="127.0.0.1", port=proxy.port, extra=extra)


def test_a_message_beyond_the_brokers_limit_is_named_with_its_index_and_sizes(in_lab):
    """B15, R17."""
    with RMQHook(in_lab()) as hook:
        hook.queue_declare("rmqtest.large")
        hook.queue_purge("rmqtest.large")
        operator = RMQPublishOperator(
            task_id="t", rmq_conn_id="lab", queue_name="rmqtest.large", message=["ok", "x" * (17 * 1024 * 1024), "ok"]
        )

        with pytest.raises(PublishFailed, match="16777216") as caught:
            operator.execute({})

        assert "index 1, 17825792 bytes" in str(caught.value)
        assert "confirmed: 0; refused: 1; not sent: 2" in str(caught.value)
        with pytest.raises(PublishFailed):
            hook.basic_publish("", "rmqtest.large", b"x" * (17 * 1024 * 1024))
        hook.basic_publish("", "rmqtest.large", "the hook is usable")
        assert hook.queue_info("rmqtest.large")["message_count"] == 2


def test_a_resource_alarm_leaves_messages_unknown_after_the_blocked_timeout(in_lab, fault_lab):
    """B17: unknown, not failed."""
    with RMQHook(in_lab(blocked_connection_timeout=2)) as hook:
        hook.queue_declare("rmqtest.alarm")
        hook.queue_purge("rmqtest.alarm")
        hook.basic_publish("", "rmqtest.alarm", "before")
        faults.set_alarm(fault_lab, "memory", raised=True, node=fault_lab.node().name)
        try:
            with pytest.raises(PublishFailed, match=r"may or may not have arrived|unknown") as caught:
                hook.basic_publish("", "rmqtest.alarm", "during")
        finally:
            faults.set_alarm(fault_lab, "memory", raised=False, node=fault_lab.node().name)

        assert caught.value.report.unknown == (0,)
        hook.basic_publish("", "rmqtest.alarm", "after")


def test_a_short_alarm_only_delays_the_confirm(in_lab, fault_lab):
    with RMQHook(in_lab()) as hook:
        hook.queue_declare("rmqtest.alarm")
        faults.set_alarm(fault_lab, "memory", raised=True, node=fault_lab.node().name)
        clearing = threading.Thread(
            target=lambda: (
                time.sleep(2),
                faults.set_alarm(fault_lab, "memory", raised=False, node=fault_lab.node().name),
            )
        )
        clearing.start()
        try:
            hook.publish_messages("", "rmqtest.alarm", [str(number) for number in range(2000)])
        finally:
            clearing.join()
            hook.queue_delete("rmqtest.alarm")


def test_a_link_cut_in_the_middle_of_a_batch_tells_confirmed_unknown_and_not_sent(vhost, queue_name, proxied):
    proxy, connect = proxied
    vhost.declare(queue_name)
    with RMQHook(connect()) as hook:
        hook.get_channel()
        proxy.order("throttle 200000")
        cut = threading.Timer(1.0, lambda: proxy.order("reset"))
        cut.start()

        with pytest.raises(PublishFailed) as caught:
            hook.publish_messages("", queue_name, ["x" * 1000] * 5000)
        cut.join()
        proxy.order("normal")

        report = caught.value.report
        assert report.confirmed
        assert report.unknown
        assert report.not_sent
        assert len(report.confirmed) + len(report.unknown) + len(report.not_sent) == 5000
        assert len(report.confirmed) <= vhost.depth(queue_name) <= len(report.confirmed) + len(report.unknown)


#: Linux's numbers for a TCP connection that the other side has ended.
TCP_CLOSE, TCP_CLOSE_WAIT = 7, 8


def the_broker_hangs_up(hook):
    """Do nothing until the broker has missed two heartbeats and ends the connection."""
    sock = hook.get_conn()._impl._transport._sock
    wait_until(
        lambda: sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in (TCP_CLOSE, TCP_CLOSE_WAIT),
        30,
        "the broker to hang up",
    )


def test_a_filter_slower_than_the_heartbeat_consumes_nothing_and_says_why(
    vhost, queue_name, airflow_connection, monkeypatch
):
    """B51: heartbeat=2 instead of 10, and as long as it takes."""
    vhost.declare(queue_name)
    vhost.publish(queue_name, "a", "b", "c")
    airflow_connection("slow", extra={"heartbeat": 2})
    hooks = []

    def remember(*given, **named):
        hooks.append(RMQHook(*given, **named))
        return hooks[-1]

    def slow(_properties, body):
        if body == "a":
            the_broker_hangs_up(hooks[-1])
        return True

    monkeypatch.setattr(rmq_consume, "RMQHook", remember)
    with pytest.raises(ConnectionLost, match=r"heartbeats of 2 s"):
        RMQConsumeOperator(task_id="t", rmq_conn_id="slow", queue_name=queue_name, filter_callable=slow).execute({})
    wait_until(lambda: vhost.depth(queue_name) == 3, 5, "all three messages")


def test_a_hook_held_open_longer_than_the_heartbeat_connects_again_once(vhost, queue_name, airflow_connection, caplog):
    """B51."""
    vhost.declare(queue_name)
    airflow_connection("slow", extra={"heartbeat": 2})
    with RMQHook("slow") as hook:
        hook.basic_publish("", queue_name, "before")
        the_broker_hangs_up(hook)
        hook.basic_publish("", queue_name, "after")

    assert vhost.depth(queue_name) == 2
    assert caplog.text.count("was lost") == 1


def test_a_broker_that_was_restarted_is_connected_to_again(fault_lab, in_lab):
    with RMQHook(in_lab(), retry_count=5, retry_delay=0.5) as hook:
        hook.queue_declare("rmqtest.restart", durable=True)
        fault_lab.kill()
        fault_lab.start()

        assert hook.queue_info("rmqtest.restart")["exists"] is True
        hook.queue_delete("rmqtest.restart")


def test_a_call_over_a_link_gone_silent_ends_after_the_rpc_timeout(vhost, queue_name, proxied):
    """R19, the kind: an answer that never comes; a heartbeat alone would take twenty minutes."""
    proxy, connect = proxied
    vhost.declare(queue_name)
    with RMQHook(connect(rpc_timeout=1)) as hook:
        for call in (
            lambda: hook.queue_declare(queue_name, durable=True),
            lambda: hook.exchange_declare("amq.topic", "topic", passive=True),
            lambda: hook.queue_purge(queue_name),
            lambda: hook.consume_messages(queue_name),
            lambda: hook.consume_messages(queue_name, auto_ack=True),
        ):
            hook.get_channel()
            proxy.order("blackhole")
            with pytest.raises(ConnectionLost, match="no answer within the rpc_timeout of 1 s"):
                call()
            proxy.order("normal")

        assert hook.queue_info(queue_name)["exists"] is True


def test_waiting_for_messages_and_for_confirms_is_longer_than_the_rpc_timeout(in_lab, fault_lab):
    with RMQHook(in_lab(rpc_timeout=0.5)) as hook:
        hook.queue_declare("rmqtest.patient")
        assert hook.consume_messages("rmqtest.patient", inactivity_timeout=1.5) == []
        hook.basic_publish("", "rmqtest.patient", "before")
        faults.set_alarm(fault_lab, "memory", raised=True, node=fault_lab.node().name)
        clearing = threading.Timer(
            1.5, lambda: faults.set_alarm(fault_lab, "memory", raised=False, node=fault_lab.node().name)
        )
        clearing.start()
        try:
            hook.basic_publish("", "rmqtest.patient", "during")
        finally:
            clearing.join()
            assert hook.queue_info("rmqtest.patient")["message_count"] == 2
            hook.queue_delete("rmqtest.patient")
