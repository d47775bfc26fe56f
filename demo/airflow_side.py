"""Airflow in the demo: start it, wait for the watcher, wait for the run. The lab's `airflow` does the work."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from demo.brokers import Broker
from demo.console import DemoError, near, say, step
from demo.orders import QUEUE, Order
from demo.settings import FIRST_PORT, HIGHEST_PORT
from integration.lab.airflow import AirflowHome, AirflowSettings, DagRunRow, Login, rmq_connection
from integration.lab.ports import is_free
from integration.lab.processes import Service
from integration.lab.waiting import NotInTimeError, wait_until

T = TypeVar("T")

DAG_ID = "orders_demo"
DAGS = Path(__file__).parent / "dags"
EVERY_ADDRESS = "0.0.0.0"
FINISHED = ("success", "failed")


@dataclass(frozen=True)
class Running:
    """The two processes of Airflow that the demo needs."""

    scheduler: Service
    webserver: Service

    def require_alive(self) -> None:
        """Raise when one of them has ended."""
        self.scheduler.require_alive()
        self.webserver.require_alive()


def choose_port(wanted: int | None) -> int:
    """Return the port of the web page: the wanted one or nothing, else the first free one from 8080 on."""
    if wanted is not None:
        if not is_free(wanted, EVERY_ADDRESS):
            raise DemoError(f"port {wanted} (DEMO_PORT) is in use")
        return wanted
    for port in range(FIRST_PORT, HIGHEST_PORT):
        if is_free(port, EVERY_ADDRESS):
            return port
    raise DemoError("no free port for the web page")


def make_home(folder: Path, port: int) -> AirflowHome:
    """Lay out an Airflow below the demo's folder, with the demo's DAG in it."""
    home = AirflowHome(folder / "airflow", AirflowSettings(webserver_port=port, dags=folder / "dags"))
    shutil.copytree(DAGS, home.dags, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    return home


def start(home: AirflowHome, broker: Broker, login: Login) -> Running:
    """Prepare the database, start scheduler and web server, return when the subscription listens."""
    with step(
        "airflow", f"making the database, connection rmq_default and a user (log: {near(home.logs)}/setup.log)", "done"
    ):
        connection = rmq_connection(broker.url, management_url=broker.management_url)
        home.prepare(connections={"rmq_default": connection}, admin=login)
    with step("airflow", f"starting scheduler and web server (logs: {near(home.logs)})", "web server answers"):
        running = Running(home.start_scheduler(), home.start_webserver())
        home.wait_for_webserver(running.webserver)
    with step(
        "watcher", f"waiting until {DAG_ID} listens to queue {QUEUE} (log: {near(running.scheduler.log)})", "listening"
    ):
        wait_for_subscription(home, running)
        wait_for_dag(home, running)
    return running


def wait_for_subscription(home: AirflowHome, running: Running) -> None:
    """Wait until the watcher's row says that its consumer listens."""

    def rows() -> list[dict[str, object]]:
        wanted = ("dag_id", "queue_name", "consumer_status", "last_error")
        return [{key: row[key] for key in wanted} for row in home.subscriptions() if row["dag_id"] == DAG_ID]

    def listening() -> bool:
        running.require_alive()
        return any(row["consumer_status"] == "listening" for row in rows())

    _wait(listening, 120, "the subscription to listen", show=rows, log=running.scheduler.log)


def wait_for_dag(home: AirflowHome, running: Running) -> None:
    """Wait until the scheduler has parsed the DAG: a message before that would wait for it too."""

    def parsed() -> bool:
        running.require_alive()
        return bool(home.rows("SELECT dag_id FROM serialized_dag WHERE dag_id = :dag_id", dag_id=DAG_ID))

    _wait(parsed, 60, f"the scheduler to parse {DAG_ID}", log=running.scheduler.log)


def wait_for_run(home: AirflowHome, running: Running, order: Order) -> DagRunRow:
    """Wait until the order's DAG run has succeeded and return it."""

    def found() -> DagRunRow | None:
        running.require_alive()
        return next((run for run in home.dag_runs(DAG_ID) if run.run_id == order.run_id), None)

    log = running.scheduler.log
    _wait(found, 60, f"the DAG run {order.run_id}", log=log)
    say("run", f"{order.run_id} exists, waiting for its task ...")

    def finished() -> DagRunRow | None:
        run = found()
        return run if run and run.state in FINISHED else None

    run = _wait(finished, 120, "the DAG run to finish", show=lambda: getattr(found(), "state", None), log=log)
    if run.state != "success":
        raise DemoError(f"the DAG run ended as {run.state}; task logs: {near(home.logs)}/tasks")
    return run


def _wait(
    condition: Callable[[], T | None], timeout: float, what: str, *, log: Path, show: Callable[[], object] | None = None
) -> T:
    """Wait, and name the log when it was in vain."""
    try:
        return wait_until(condition, timeout, what, show=show)
    except NotInTimeError as error:
        raise DemoError(f"{error}; log: {near(log)}") from error
