"""Several hosts are tried in turn, in every attempt, before the pause grows."""

import asyncio
import socket
import time
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from airflow_provider_rmq.hooks.rmq import RMQHook
from airflow_provider_rmq.triggers.rmq import RMQTrigger
from integration.lab.fault_proxy import ProxyThread
from integration.lab.ports import free_port


async def triggered(conn_id, queue_name):
    running = RMQTrigger(conn_id, queue_name, mode="push").run()
    try:
        return (await asyncio.wait_for(anext(running), 20)).payload
    finally:
        await running.aclose()


def both_clients_get_through(conn_id, queue_name):
    with RMQHook(conn_id) as hook:
        hook.basic_publish("", queue_name, "x")
    assert asyncio.run(triggered(conn_id, queue_name))["message"]["body"] == "x"


@pytest.mark.parametrize("host", ["127.0.0.2,127.0.0.1", "127.0.0.2, localhost", "no.such.host.invalid,127.0.0.1"])
def test_hosts_are_tried_in_turn_by_both_clients(vhost, queue_name, airflow_connection, host):
    """B49, R27: only the second one listens."""
    vhost.declare(queue_name)

    both_clients_get_through(airflow_connection("cluster", host=host), queue_name)


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_an_ipv6_address_works_with_and_without_brackets(vhost, queue_name, airflow_connection, broker_url, host):
    """B49."""
    vhost.declare(queue_name)
    parts = urlsplit(broker_url)
    with ProxyThread((parts.hostname, parts.port), "::1") as proxy:
        both_clients_get_through(airflow_connection("six", host=host, port=proxy.port), queue_name)


def test_a_dead_address_of_a_name_costs_no_more_than_the_connect_timeout(
    vhost, queue_name, airflow_connection, broker_url, monkeypatch
):
    """B49: a name with two addresses, of which the first takes connections and says nothing."""
    vhost.declare(queue_name)
    port = urlsplit(broker_url).port
    resolve = socket.getaddrinfo

    def two_addresses(host, *given, **named):
        if host != "two.addresses.invalid":
            return resolve(host, *given, **named)
        return resolve("127.0.0.3", *given, **named) + resolve("127.0.0.1", *given, **named)

    monkeypatch.setattr(socket, "getaddrinfo", two_addresses)

    def seconds_with(connect_timeout):
        conn_id = airflow_connection("named", host="two.addresses.invalid", extra={"connect_timeout": connect_timeout})
        begun = time.monotonic()
        with RMQHook(conn_id) as hook:
            hook.basic_publish("", queue_name, "x")
        return time.monotonic() - begun

    with closing(socket.create_server(("127.0.0.3", port))):
        # Without the bound pika waits its own 15 s for the silent one, both times.
        assert seconds_with(0.5) < seconds_with(3)
    assert vhost.depth(queue_name) == 2


def test_the_first_host_that_answers_is_used_and_the_others_are_named(airflow_connection, broker_url, caplog):
    """B49, R27."""
    parts = urlsplit(broker_url)
    dead = free_port()
    airflow_connection("cluster", host=f"127.0.0.1:{dead},{parts.hostname}:{parts.port}")

    with RMQHook("cluster") as hook:
        assert hook.get_channel().is_open

    assert f"127.0.0.1:{dead}: the port is refused" in caplog.text
    good, text = RMQHook("cluster").test_connection()
    assert good is True
    assert f"127.0.0.1:{dead}" in text


def test_without_any_host_the_last_error_is_raised_unchanged_after_the_retries(airflow_connection, caplog):
    import pika.exceptions

    airflow_connection("nobody", host="127.0.0.1", port=free_port())

    with pytest.raises(pika.exceptions.AMQPConnectionError):
        RMQHook("nobody", retry_count=3, retry_delay=0.01).get_channel()

    assert caplog.text.count("the port is refused") == 3


def test_a_wrong_password_is_not_tried_again(airflow_connection, caplog):
    import pika.exceptions

    airflow_connection("locked", password="wrong")

    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        RMQHook("locked", retry_delay=0.01).get_channel()

    assert caplog.text.count("wrong user name or password") == 1
    assert "'wrong'" not in caplog.text
