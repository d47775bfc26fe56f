"""One empty database of each kind that Airflow supports."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from integration.conftest import IN_CI
from integration.lab.processes import LabError

KINDS = ("sqlite", "postgresql", "mysql")
MYSQL = "RMQ_TEST_MYSQL_URL"


@pytest.fixture(scope="session")
def mysql_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A MariaDB (or the MySQL of RMQ_TEST_MYSQL_URL) with a database `rmqtest`."""
    if IN_CI:
        import pymysql  # noqa: F401 - CI must not skip
    else:
        pytest.importorskip("pymysql", reason="the driver pymysql is not installed")
    if os.environ.get(MYSQL):
        yield os.environ[MYSQL]
        return
    from integration.lab.mariadb import MariaDB

    try:
        server = MariaDB(tmp_path_factory.mktemp("mariadb"))
    except LabError as error:
        if IN_CI:
            raise
        pytest.skip(str(error))
    with server:
        yield server.url


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path')}/empty.db"
    if request.param == "postgresql":
        return str(request.getfixturevalue("database")())
    return emptied(request.getfixturevalue("mysql_url"))


def emptied(url: str) -> str:
    """Drop every table of ours that is left of an earlier test."""
    from sqlalchemy import MetaData

    engine = create_engine(url, future=True, poolclass=NullPool)
    metadata = MetaData()
    metadata.reflect(engine)
    metadata.drop_all(engine)
    return url


@pytest.fixture
def engine(database_url: str) -> Iterator[Any]:
    """An engine on the empty database."""
    engine = create_engine(database_url, future=True, poolclass=NullPool)
    yield engine
    engine.dispose()
