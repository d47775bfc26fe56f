"""The services of `integration/`: those the caller names, or private ones that end with the run.

`run_tests` calls this; what the variables mean is in `integration/README.md`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from integration.lab.broker_lab import BrokerLab
from integration.lab.lab_state import LabSettings
from integration.lab.postgres import Postgres

BROKER, MANAGEMENT, POSTGRES = "RMQ_TEST_URL", "RMQ_TEST_MANAGEMENT_URL", "RMQ_TEST_POSTGRES_URL"
#: "3.10" or "4.0" for every private broker of the run; without it what the machine has or its release offers.
SERIES = "RMQ_TEST_SERIES"


def note(text: str) -> None:
    """Tell progress between the outputs of the tools."""
    print(f"services: {text}", flush=True)


@contextmanager
def services(folder: Path, given: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Start what the environment does not name and yield the variables for pytest."""
    with ExitStack() as stack:
        variables: dict[str, str] = {}
        if not given.get(BROKER):
            lab = BrokerLab(folder / "broker", note=note)
            stack.callback(lab.down)
            lab.up(LabSettings(series=given.get(SERIES) or None))
            vhost = f"rmqtest-{secrets.token_hex(4)}"
            lab.management().create_vhost(vhost)
            variables.update({BROKER: lab.amqp_url(vhost=vhost), MANAGEMENT: lab.management_url()})
            note(f"RabbitMQ {lab.version} at port {lab.node().amqp}, vhost {vhost} (log: {lab.log_dir()})")
        if not given.get(POSTGRES):
            postgres = Postgres(folder / "postgres", note=note)
            stack.callback(postgres.remove)
            postgres.start()
            variables[POSTGRES] = postgres.url
            note(f"PostgreSQL at port {postgres.port} (log: {postgres.log})")
        yield variables
