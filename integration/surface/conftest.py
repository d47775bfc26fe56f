"""Fixtures of the tests for DAG authors' side: an Airflow connection to the test broker, and hooks on it."""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

# Before anything imports Airflow: a home of its own, and without its deprecated defaults, which warn at import.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-surface-"))
os.environ.setdefault("AIRFLOW__METRICS__TIMER_UNIT_CONSISTENCY", "True")
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")

from integration.lab.airflow import rmq_connection
from integration.lab.broker_lab import BrokerLab
from integration.lab.lab_state import LabSettings
from integration.vhost import Vhost


@pytest.fixture
def airflow_connection(broker_url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Make an Airflow connection to the test broker, changed by the given fields and extras; returns its id."""

    def make(conn_id: str = "rmq_default", *, extra: dict[str, Any] | None = None, **fields: Any) -> str:
        described = {**rmq_connection(broker_url), **fields}
        described["extra"] = extra or {}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(described))
        return conn_id

    make()
    return make


@pytest.fixture
def hook(airflow_connection: Callable[..., str]) -> Iterator[Any]:
    """A hook on the test broker."""
    from airflow_provider_rmq.hooks.rmq import RMQHook

    with RMQHook() as made:
        yield made


@pytest.fixture
def exchange_name(vhost: Vhost) -> Iterator[str]:
    """An exchange name of this test's own; the exchange, if the test makes it, is deleted afterwards."""
    name = f"rmqtest.{os.getpid()}.{uuid.uuid4().hex[:8]}.exchange"
    yield name
    with vhost.channel() as channel:
        channel.exchange_delete(name)


@pytest.fixture(scope="session")
def fault_lab(tmp_path_factory: pytest.TempPathFactory, broker_url: str) -> Iterator[BrokerLab]:
    """A broker of this folder's own, of the same series, to be alarmed, restarted and given vhosts."""
    with BrokerLab(tmp_path_factory.mktemp("faults")) as lab:
        lab.up(LabSettings(series=os.environ.get("RMQ_TEST_SERIES") or None, settings=("max_message_size=16777216",)))
        yield lab
