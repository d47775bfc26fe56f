"""DAG parsing and the supervisor stay light: what they import reaches neither Airflow nor a client library."""

import subprocess
import sys

import pytest

HEAVY = ("airflow", "sqlalchemy", "aio_pika", "aiormq", "pika", "httpx", "flask")


@pytest.mark.parametrize(
    "module",
    [
        "airflow_provider_rmq",
        "airflow_provider_rmq.watcher",
        "airflow_provider_rmq.watcher.decorators",
        "airflow_provider_rmq.watcher.runner",
        "airflow_provider_rmq.watcher.process.supervisor",
        "airflow_provider_rmq.compat",
    ],
)
def test_importing_it_loads_nothing_heavy(module):
    program = f"import sys, {module}; print([name for name in {HEAVY!r} if name in sys.modules])"

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert loaded.strip() == "[]"
