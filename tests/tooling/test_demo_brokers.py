"""Which broker the demo takes, and what it says when there is none."""

from __future__ import annotations

import pytest

from demo import brokers, docker
from demo.console import DemoError
from demo.settings import Settings
from integration.lab import apt, installs

CONTAINER = docker.Container("name", "amqp://u:p@127.0.0.1:1/%2F", "http://127.0.0.1:2")


@pytest.fixture
def machine(monkeypatch):
    """Say what the machine has; starting anything is replaced by its name."""

    def has(*, installed: bool = False, docker_runs: bool = False, apt_works: bool = False) -> None:
        monkeypatch.setattr(installs, "find_on_host", lambda: "an install" if installed else None)
        monkeypatch.setattr(docker, "is_running", lambda: docker_runs)
        monkeypatch.setattr(docker, "start", lambda: CONTAINER)
        monkeypatch.setattr(apt, "can_install", lambda: apt_works)
        monkeypatch.setattr(brokers, "private_node", lambda _: "private node")

    return has


def test_the_callers_broker_comes_first(machine, tmp_path):
    machine(installed=True, docker_runs=True, apt_works=True)

    found = brokers.find(Settings(rmq_url="amqp://u:secret@host:1/v%2Fw"), tmp_path)

    assert found.url == "amqp://u:secret@host:1/v%2Fw"
    assert found.place == "host:1, vhost v/w"
    assert not found.private


def test_an_installed_server_comes_before_docker(machine, tmp_path):
    machine(installed=True, docker_runs=True, apt_works=True)

    assert brokers.find(Settings(), tmp_path) == "private node"


def test_docker_comes_before_installing_something(machine, tmp_path):
    machine(docker_runs=True, apt_works=True)

    assert brokers.find(Settings(), tmp_path).url == CONTAINER.url


def test_apt_is_the_last_way(machine, tmp_path):
    machine(apt_works=True)

    assert brokers.find(Settings(), tmp_path) == "private node"


def test_without_any_way_the_error_names_the_three(machine, tmp_path):
    machine()

    with pytest.raises(DemoError, match=r"set RMQ_URL=.*install rabbitmq-server.*start Docker"):
        brokers.find(Settings(), tmp_path)


def test_no_login_is_in_a_brokers_representation(machine, tmp_path):
    machine()

    assert "secret" not in repr(brokers.find(Settings(rmq_url="amqp://u:secret@host/v"), tmp_path))
