"""Fixtures of the tests against real services, and the rules that keep them away from anybody's real broker.

`README.md` beside this file explains variables, fixtures and rules. The services come from `make test`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from integration.lab.airflow import AirflowHome, AirflowSettings, rmq_connection
from integration.lab.broker_lab import BrokerLab
from integration.lab.lab_state import LabSettings
from integration.lab.postgres import create_database, drop_database
from integration.vhost import Vhost

HERE = Path(__file__).parent
BROKER, MANAGEMENT, POSTGRES = "RMQ_TEST_URL", "RMQ_TEST_MANAGEMENT_URL", "RMQ_TEST_POSTGRES_URL"
SERIES = "RMQ_TEST_SERIES"
IN_CI = os.environ.get("CI", "").lower() in ("1", "true")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which RabbitMQ the tests ran on."""
    url = os.environ.get(BROKER)
    if url and not terminalreporter.config.option.collectonly:
        try:
            terminalreporter.write_line(f"integration: ran on RabbitMQ {Vhost(url).server_version()}")
        except Exception as error:  # noqa: BLE001 - the tests have said what they had to say
            terminalreporter.write_line(f"integration: the broker's version is not known: {error!r}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the whole folder without a broker; refuse one that may be somebody's."""
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    if not ours:
        return
    url = os.environ.get(BROKER)
    if url:
        vhost = unquote(urlsplit(url).path.removeprefix("/"))
        if vhost in ("", "/"):
            raise pytest.UsageError(
                f"{BROKER} must name a vhost made for tests: amqp://user:password@host:5672/rmqtest"
            )
        return
    if IN_CI:
        raise pytest.UsageError(f"{BROKER} is not set, and CI must not skip; run: make test-integration")
    reason = pytest.mark.skip(reason=f"{BROKER} is not set; make test-integration starts a private broker")
    for item in ours:
        item.add_marker(reason)


def service(variable: str) -> str:
    """Return a variable's URL; without it skip, or fail in CI."""
    url = os.environ.get(variable)
    if url:
        return url
    if IN_CI:
        pytest.fail(f"{variable} is not set, and CI must not skip")
    pytest.skip(f"{variable} is not set")


@pytest.fixture(scope="session")
def broker_url() -> str:
    """The AMQP URL of a broker whose vhost belongs to this run."""
    return service(BROKER)


@pytest.fixture(scope="session")
def management_url() -> str:
    """The management API of that broker; its login is that of `broker_url`."""
    return service(MANAGEMENT)


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """A PostgreSQL server on which databases may be made."""
    return service(POSTGRES)


@pytest.fixture(scope="session")
def vhost(broker_url: str) -> Vhost:
    """Declare, publish, look and delete, without the package under test."""
    return Vhost(broker_url)


@pytest.fixture
def queue_name(vhost: Vhost) -> Iterator[str]:
    """A queue name of this test's own; the queue, if the test makes it, is deleted afterwards."""
    name = f"rmqtest.{os.getpid()}.{uuid.uuid4().hex[:8]}.queue"
    yield name
    vhost.delete(name)


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Make PostgreSQL databases of this test's own; each call returns a URL."""
    made: list[str] = []

    def make() -> str:
        made.append(f"rmqtest_{os.getpid()}_{uuid.uuid4().hex[:8]}")
        return create_database(request.getfixturevalue("postgres_url"), made[-1])

    yield make
    for name in made:
        drop_database(request.getfixturevalue("postgres_url"), name)


@pytest.fixture
def airflow_home(
    tmp_path: Path, request: pytest.FixtureRequest, database: Callable[[], str]
) -> Iterator[Callable[..., AirflowHome]]:
    """Make Airflows of this test's own, prepared and with `rmq_default`; their processes end with the test.

    `airflow_home()` is SQLite with SequentialExecutor; `airflow_home(postgres=True, executor="LocalExecutor",
    environment={...}, connections={...})` is the usual way to run many tasks.
    """
    homes: list[AirflowHome] = []

    def make(
        *,
        postgres: bool = False,
        executor: str = "SequentialExecutor",
        environment: dict[str, str] | None = None,
        connections: dict[str, dict[str, Any]] | None = None,
    ) -> AirflowHome:
        settings = AirflowSettings(
            executor=executor, database_url=database() if postgres else None, environment=environment or {}
        )
        home = AirflowHome(tmp_path / f"airflow{len(homes) + 1}", settings)
        homes.append(home)
        if connections is None:
            broker_url = request.getfixturevalue("broker_url")
            connections = {"rmq_default": rmq_connection(broker_url, management_url=os.environ.get(MANAGEMENT))}
        home.prepare(connections=connections)
        return home

    yield make
    for home in homes:
        home.stop()


@pytest.fixture(scope="module")
def broker_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerLab]:
    """A broker of this module's own, to be killed, frozen and alarmed; the others' broker stays untouched."""
    with BrokerLab(tmp_path_factory.mktemp("broker")) as lab:
        lab.up(LabSettings(series=os.environ.get(SERIES) or None))
        yield lab
