"""Finding a broker: the caller's own, a private node of an installed RabbitMQ, Docker, or apt.

Every way ends in a `Broker`; whoever got it calls `close` at the end. The private node is the integration tests'
lab, the container is in `docker`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from demo import docker
from demo.console import DemoError, near, say, step
from demo.settings import Settings
from integration.lab import apt, installs
from integration.lab.broker_lab import BrokerLab
from integration.lab.lab_state import ADMIN

NO_BROKER = (
    "no broker: set RMQ_URL=amqp://user:password@host:5672/vhost, or install rabbitmq-server, or start Docker "
    "(as root on Debian or Ubuntu the demo installs rabbitmq-server itself)"
)


@dataclass(frozen=True)
class Broker:
    """A broker the demo may use."""

    url: str = field(repr=False)
    management_url: str | None
    private: bool  # started for this run, gone with it
    close: Callable[[], None]

    @property
    def place(self) -> str:
        """Host, port and virtual host, without the login."""
        parts = urlsplit(self.url)
        return f"{parts.hostname}:{parts.port or 5672}, vhost {unquote(parts.path.removeprefix('/')) or '/'}"


def find(settings: Settings, folder: Path) -> Broker:
    """Return a broker that answers.

    Raises:
        DemoError: there is none; names the ways to have one.
    """
    if settings.rmq_url:
        broker = Broker(settings.rmq_url, settings.management_url, private=False, close=lambda: None)
        say("broker", f"using RMQ_URL ({broker.place})")
        return broker
    if installs.find_on_host():
        return private_node(folder)
    if docker.is_running():
        container = docker.start()
        return Broker(container.url, container.management_url, private=True, close=container.stop)
    if apt.can_install():
        return private_node(folder)
    raise DemoError(NO_BROKER)


def private_node(folder: Path) -> Broker:
    """Start a node of our own, installing the server first where it is missing."""
    if not installs.find_on_host():
        with step("broker", "installing rabbitmq-server with apt-get", "installed"):
            installs.ensure_installed()
    lab = BrokerLab(folder / "broker")
    version = installs.ensure_installed().version
    with step("broker", f"starting RabbitMQ {version} (log: {near(lab.state_dir)}/n1/log)"):
        lab.up()
    say("broker", f"its page is {lab.management_url()}, login {ADMIN} / {ADMIN}")
    return Broker(lab.amqp_url(), lab.management_url(), private=True, close=lab.down)
