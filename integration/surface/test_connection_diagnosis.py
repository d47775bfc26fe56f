"""`test_connection` says what is wrong in a person's words, and never raises."""

import socket
from contextlib import closing

import pytest

from airflow_provider_rmq.hooks.rmq import RMQHook
from integration.lab.ports import free_port


@pytest.fixture
def says(airflow_connection):
    def ask(**fields):
        return RMQHook(airflow_connection("probe", **fields)).test_connection()

    return ask


def test_a_good_connection_says_where_it_leads(says):
    good, text = says()

    assert good is True
    assert text.startswith("Connected to ")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"host": "no.such.host.invalid"}, "host name is unknown"),
        ({"password": "wrong"}, "wrong user name or password"),
        ({"schema": "no-such-vhost"}, "rabbitmqctl add_vhost no-such-vhost"),
        ({"extra": {"ssl_enabled": True}}, "without TLS"),
        ({"host": "a:b"}, "host 'a:b'"),
        ({"extra": {"ssl_enabled": True, "ca_certs": "/nowhere.pem"}}, "/nowhere.pem"),
    ],
)
def test_what_is_wrong_is_said_in_words(says, fields, words):
    good, text = says(**fields)

    assert good is False
    assert words in text


def test_a_refused_port_is_named(says):
    port = free_port()

    good, text = says(host="127.0.0.1", port=port)

    assert good is False
    assert f"127.0.0.1:{port}: the port is refused" in text


def test_a_port_that_says_nothing_is_given_up_after_the_connect_timeout(says):
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        good, text = says(host="127.0.0.1", port=silent.getsockname()[1], extra={"connect_timeout": 0.5})

    assert good is False
    assert "no answer in time" in text


def test_a_user_without_permission_on_the_vhost_is_told_the_command(says, vhost, broker_url, management_url):
    from urllib.parse import quote, urlsplit

    import httpx

    parts = urlsplit(broker_url)
    with httpx.Client(base_url=management_url, auth=(parts.username, parts.password)) as client:
        user = f"rmqtest-{free_port()}"
        client.put(f"/api/users/{quote(user)}", json={"password": "secret", "tags": ""}).raise_for_status()
        try:
            good, text = says(login=user, password="secret")
        finally:
            client.delete(f"/api/users/{quote(user)}")

    assert good is False
    assert f"user '{user}' has no permission on vhost" in text
    assert "rabbitmqctl set_permissions -p" in text


def test_an_unknown_airflow_connection_is_an_answer_too():
    good, text = RMQHook("no_such_conn_id_anywhere").test_connection()

    assert good is False
    assert "no_such_conn_id_anywhere" in text
