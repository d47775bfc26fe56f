"""A broker in a container, where Docker runs and nothing else is at hand. `brokers` decides when."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from dataclasses import dataclass, field

from demo.console import DemoError, step
from integration.lab.broker_lab import AMQP_GREETING, answers
from integration.lab.ports import free_ports
from integration.lab.processes import run
from integration.lab.waiting import NotInTimeError, wait_until

IMAGE = "rabbitmq:4-management"


@dataclass(frozen=True)
class Container:
    """A running broker, removed by `stop`."""

    name: str
    url: str = field(repr=False)
    management_url: str

    def stop(self) -> None:
        """Remove the container with its data."""
        run(["docker", "rm", "--force", "--volumes", self.name], check=False)


def is_running() -> bool:
    """Say whether a Docker daemon answers: the command alone is no proof."""
    if not shutil.which("docker"):
        return False
    try:
        return run(["docker", "info"], check=False, timeout=20).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def start() -> Container:
    """Start the broker and wait until it answers.

    Raises:
        DemoError: Docker's own words, or no answer in time.
    """
    amqp, management = free_ports(2)
    login, password = "demo", secrets.token_hex(12)
    container = Container(
        f"airflow-rmq-demo-{os.getpid()}",
        f"amqp://{login}:{password}@127.0.0.1:{amqp}/%2F",
        f"http://127.0.0.1:{management}",
    )
    ports = ["--publish", f"127.0.0.1:{amqp}:5672", "--publish", f"127.0.0.1:{management}:15672"]
    user = ["--env", "RABBITMQ_DEFAULT_USER", "--env", "RABBITMQ_DEFAULT_PASS"]
    # The values go through the environment, not the command line that every user of the machine can read.
    env = {**os.environ, "RABBITMQ_DEFAULT_USER": login, "RABBITMQ_DEFAULT_PASS": password}
    try:
        with step("broker", f"starting {IMAGE} with Docker, which may have to fetch it first"):
            done = run(
                ["docker", "run", "--detach", "--rm", "--name", container.name, *ports, *user, IMAGE],
                check=False,
                env=env,
            )
            if done.returncode:
                raise DemoError(f"docker run failed: {done.stdout.strip().splitlines()[-1]}")
            wait_until(lambda: answers("127.0.0.1", amqp, AMQP_GREETING), 120, "the container to answer")
    except NotInTimeError as error:
        container.stop()
        raise DemoError(f"{error} (docker logs {container.name})") from error
    except BaseException:
        container.stop()
        raise
    return container
