"""Several hosts are tried in turn, in every attempt, before the pause grows."""

import time

from airflow_provider_rmq.hooks.rmq import RMQHook
from integration.lab.ports import free_port


def test_the_first_host_that_answers_is_used_and_the_others_are_named(airflow_connection, broker_url, caplog):
    """B49, R27."""
    from urllib.parse import urlsplit

    parts = urlsplit(broker_url)
    dead = free_port()
    airflow_connection("cluster", host=f"127.0.0.1:{dead},{parts.hostname}:{parts.port}")

    started = time.monotonic()
    with RMQHook("cluster") as hook:
        assert hook.get_channel().is_open

    assert time.monotonic() - started < 2
    assert f"127.0.0.1:{dead}: the port is refused" in caplog.text
    good, text = RMQHook("cluster").test_connection()
    assert good is True
    assert f"127.0.0.1:{dead}" in text


def test_without_any_host_the_last_error_is_raised_unchanged_after_the_retries(airflow_connection, caplog):
    import pika.exceptions
    import pytest

    airflow_connection("nobody", host="127.0.0.1", port=free_port())

    with pytest.raises(pika.exceptions.AMQPConnectionError):
        RMQHook("nobody", retry_count=3, retry_delay=0.01).get_channel()

    assert caplog.text.count("the port is refused") == 3


def test_a_wrong_password_is_not_tried_again(airflow_connection, caplog):
    import pika.exceptions
    import pytest

    airflow_connection("locked", password="wrong")

    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        RMQHook("locked", retry_delay=0.01).get_channel()

    assert caplog.text.count("wrong user name or password") == 1
    assert "'wrong'" not in caplog.text
