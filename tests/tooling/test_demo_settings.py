"""The demo's variables: what they mean, and what a wrong one says."""

from __future__ import annotations

import pytest

from demo.console import DemoError
from demo.settings import Settings


def test_without_variables_the_demo_stays_up_and_finds_everything_itself():
    assert Settings.read({}) == Settings(once=False, rmq_url=None, management_url=None, port=None)


def test_variables_are_read():
    given = {"ONCE": "1", "RMQ_URL": "amqp://u:p@host/v", "RMQ_MANAGEMENT_URL": "http://host", "DEMO_PORT": "8081"}

    assert Settings.read(given) == Settings(
        once=True, rmq_url="amqp://u:p@host/v", management_url="http://host", port=8081
    )


@pytest.mark.parametrize("value", ["", " ", "0", "no", "false"])
def test_once_can_be_switched_off(value):
    assert not Settings.read({"ONCE": value}).once


@pytest.mark.parametrize("port", ["web", "0", "65536", "-1"])
def test_a_port_that_is_none_is_named(port):
    with pytest.raises(DemoError, match=f"DEMO_PORT must be a port between 1 and 65535, not '{port}'"):
        Settings.read({"DEMO_PORT": port})


@pytest.mark.parametrize("url", ["localhost:5672", "http://u:secret@host", "amqp://"])
def test_a_broker_url_of_another_kind_is_refused_without_showing_it(url):
    with pytest.raises(DemoError, match="RMQ_URL must look like amqp://") as caught:
        Settings.read({"RMQ_URL": url})

    assert "secret" not in str(caught.value)


def test_the_password_is_in_no_representation():
    assert "secret" not in repr(Settings.read({"RMQ_URL": "amqp://u:secret@host/v"}))
