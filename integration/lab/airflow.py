"""An Airflow of its own below a directory: configuration, database, processes, and questions to its database.

    airflow = AirflowHome(Path("home"))                      # SQLite and SequentialExecutor, or:
    airflow = AirflowHome(Path("home"), AirflowSettings(executor="LocalExecutor", database_url=url))
    airflow.prepare(connections={"rmq_default": rmq_connection(amqp_url)}, admin=Login("admin", "secret"))
    airflow.start_scheduler()
    wait_until(lambda: airflow.dag_runs("orders_demo"), 60, "a DAG run")
    airflow.stop()

`airflow_setup` is the program that prepares the database; `processes` starts and ends what runs.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from integration.lab.ports import free_port
from integration.lab.processes import LabError, Service
from integration.lab.waiting import wait_until

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Login:
    """A user of the web pages."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class AirflowSettings:
    """What one Airflow differs in from another."""

    executor: str = "SequentialExecutor"
    database_url: str | None = None  # None: SQLite below the home
    webserver_port: int | None = None  # None: a free one
    dags: Path | None = None  # None: below the home
    environment: Mapping[str, str] = field(default_factory=dict)  # last word over everything below


@dataclass(frozen=True)
class DagRunRow:
    """One row of the table dag_run, with its moments in UTC."""

    dag_id: str
    run_id: str
    state: str
    conf: dict[str, Any]
    queued_at: datetime | None
    start_date: datetime | None
    end_date: datetime | None


def rmq_connection(amqp_url: str, *, management_url: str | None = None) -> dict[str, Any]:
    """Return the fields of an Airflow connection that leads where an AMQP URL leads."""
    parts = urlsplit(amqp_url)
    vhost = unquote(parts.path.removeprefix("/")) or "/"
    extra = {"management_url": management_url} if management_url else {}
    return {
        "conn_type": "amqp",
        "host": parts.hostname,
        "port": parts.port,
        "login": unquote(parts.username or "guest"),
        "password": unquote(parts.password or "guest"),
        "schema": vhost,
        "extra": json.dumps(extra) if extra else None,
    }


class AirflowHome:
    """One Airflow: its directory, its environment, its processes."""

    def __init__(self, path: Path, settings: AirflowSettings | None = None) -> None:
        self.path = path.absolute()
        self.settings = settings or AirflowSettings()
        self.dags = (self.settings.dags or self.path / "dags").absolute()
        self.logs = self.path / "logs"
        self.webserver_port = self.settings.webserver_port or free_port()
        self.database_url = self.settings.database_url or f"sqlite:///{self.path}/airflow.db"
        self.services: list[Service] = []
        self._engine: Any = None
        # Given to all, because processes that start together may read an `airflow.cfg` that another is just writing.
        self._keys = [base64.urlsafe_b64encode(os.urandom(32)).decode() for _ in range(2)]
        self.dags.mkdir(parents=True, exist_ok=True)
        self.logs.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> AirflowHome:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- configuration

    @property
    def env(self) -> dict[str, str]:
        """The environment of every process of this Airflow; nothing of another Airflow's configuration gets in."""
        programs = Path(sys.executable).parent
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "PYTHONPATH"))}
        return {
            **inherited,
            "PATH": f"{programs}:{inherited.get('PATH', os.defpath)}",
            "PYTHONUNBUFFERED": "1",
            "TZ": "UTC",
            "AIRFLOW_HOME": str(self.path),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__EXECUTOR": self.settings.executor,
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__FERNET_KEY": self._keys[0],
            "AIRFLOW__WEBSERVER__SECRET_KEY": self._keys[1],
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self.database_url,
            "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self.logs / "tasks"),
            "AIRFLOW__SCHEDULER__CHILD_PROCESS_LOG_DIRECTORY": str(self.logs / "dag_processing"),
            "AIRFLOW__LOGGING__DAG_PROCESSOR_MANAGER_LOG_LOCATION": str(self.logs / "dag_processor.log"),
            # New and changed DAG files are seen within seconds instead of minutes.
            "AIRFLOW__SCHEDULER__DAG_DIR_LIST_INTERVAL": "3",
            "AIRFLOW__SCHEDULER__MIN_FILE_PROCESS_INTERVAL": "3",
            "AIRFLOW__WEBSERVER__WEB_SERVER_HOST": "127.0.0.1",
            "AIRFLOW__WEBSERVER__WEB_SERVER_PORT": str(self.webserver_port),
            "AIRFLOW__WEBSERVER__BASE_URL": f"http://localhost:{self.webserver_port}",
            "AIRFLOW__WEBSERVER__WORKERS": "1",
            "AIRFLOW__WEBSERVER__WARN_DEPLOYMENT_EXPOSURE": "False",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "SCARF_ANALYTICS": "False",
            **self.settings.environment,
        }

    # -- preparing

    def prepare(self, *, connections: Mapping[str, Mapping[str, Any]], admin: Login | None = None) -> None:
        """Make the database schema, connections and the user of the pages, in one interpreter start."""
        orders: dict[str, Any] = {"migrate": True, "connections": {k: dict(v) for k, v in connections.items()}}
        if admin:
            orders["admin"] = {"username": admin.username, "password": admin.password}
        self._set_up(orders)

    def migrate(self) -> None:
        """Make the database schema."""
        self._set_up({"migrate": True})

    def add_connection(self, conn_id: str, fields: Mapping[str, Any]) -> None:
        """Store one connection, in place of one of the same name: fields as `rmq_connection` returns, or a uri."""
        self._set_up({"connections": {conn_id: dict(fields)}})

    def create_admin(self, login: Login) -> None:
        """Make a user who may see everything."""
        self._set_up({"admin": {"username": login.username, "password": login.password}})

    def cli(self, *args: str, timeout: float = 120) -> str:
        """Run the airflow command and return what it prints; each call costs seconds."""
        done = subprocess.run(
            [str(Path(sys.executable).parent / "airflow"), *args],
            check=False,
            env=self.env,
            cwd=self.path,
            timeout=timeout,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if done.returncode:
            raise LabError(f"airflow {' '.join(args)}: exit {done.returncode}\n{done.stdout.strip()[-2000:]}")
        return done.stdout

    # -- running

    def start_scheduler(self) -> Service:
        """Start the scheduler; it is up before it is ready, so wait for what it does."""
        return self._start("scheduler", "--skip-serve-logs")

    def start_triggerer(self) -> Service:
        """Start the triggerer."""
        return self._start("triggerer", "--skip-serve-logs")

    def start_webserver(self) -> Service:
        """Start the web server; `wait_for_webserver` says when it answers."""
        return self._start("webserver")

    def wait_for_webserver(self, service: Service, timeout: float = 120) -> None:
        """Wait until the web server answers."""

        def answers() -> bool:
            service.require_alive()
            try:
                with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                    f"http://127.0.0.1:{self.webserver_port}/health", timeout=5
                ) as response:
                    return bool(response.status == 200)
            except (OSError, urllib.error.URLError):
                return False

        wait_until(answers, timeout, f"the web server to answer (log: {service.log})", interval=0.2)

    def stop(self, seconds: float = 20) -> None:
        """End every process started here and everything below them. Safe to call twice."""
        for service in self.services:  # all at once, then one by one
            service.send(signal.SIGTERM)
        for service in reversed(self.services):
            service.stop(seconds)
        self.services.clear()
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    # -- asking its database

    def rows(self, sql: str, **parameters: Any) -> list[dict[str, Any]]:
        """Run a query and return its rows."""
        from sqlalchemy import text

        with self._connect() as connection:
            return [dict(row) for row in connection.execute(text(sql), parameters).mappings()]

    def execute(self, sql: str, **parameters: Any) -> None:
        """Run a statement and commit it."""
        from sqlalchemy import text

        with self._connect() as connection:
            connection.execute(text(sql), parameters)
            connection.commit()

    def has_table(self, name: str) -> bool:
        """Say whether a table exists yet."""
        from sqlalchemy import inspect

        with self._connect() as connection:
            return bool(inspect(connection).has_table(name))

    def dag_runs(self, dag_id: str) -> list[DagRunRow]:
        """Return the runs of a DAG, oldest first."""
        import sqlalchemy as sa

        moments = [sa.column(name, sa.DateTime(timezone=True)) for name in ("queued_at", "start_date", "end_date")]
        names = [sa.column(name, sa.String) for name in ("dag_id", "run_id", "state")]
        query = (
            sa.select(*names, sa.column("conf", sa.PickleType), *moments)
            .select_from(sa.table("dag_run"))
            .where(sa.column("dag_id") == dag_id)
            .order_by(sa.column("id"))
        )
        with self._connect() as connection:
            found = connection.execute(query).all()
        return [
            DagRunRow(
                dag_id=row.dag_id,
                run_id=row.run_id,
                state=row.state,
                conf=row.conf or {},
                queued_at=in_utc(row.queued_at),
                start_date=in_utc(row.start_date),
                end_date=in_utc(row.end_date),
            )
            for row in found
        ]

    def subscriptions(self) -> list[dict[str, Any]]:
        """Return the watcher's rows; none while it has not made its table yet."""
        if not self.has_table("rmq_watcher_subscriptions"):
            return []
        return self.rows("SELECT * FROM rmq_watcher_subscriptions ORDER BY id")

    # -- inside

    def _connect(self) -> Any:
        if self._engine is None:
            from sqlalchemy import create_engine
            from sqlalchemy.pool import NullPool

            self._engine = create_engine(self.database_url, future=True, poolclass=NullPool)
        return self._engine.connect()

    def _set_up(self, orders: dict[str, Any]) -> None:
        log = self.logs / "setup.log"
        with log.open("ab") as output:
            done = subprocess.run(
                [sys.executable, "-m", "integration.lab.airflow_setup"],
                check=False,
                env={**self.env, "PYTHONPATH": str(PROJECT)},
                cwd=self.path,
                input=json.dumps(orders).encode(),
                stdout=output,
                stderr=output,
            )
        if done.returncode:
            lines = log.read_text(errors="replace").strip().splitlines()
            raise LabError(f"preparing Airflow failed: {lines[-1] if lines else 'no output'}; log: {log}")

    def _start(self, *words: str) -> Service:
        name = words[0]
        program = Path(sys.executable).parent / "airflow"
        service = Service(
            f"airflow {name}", [program, *words], log=self.logs / f"{name}.log", env=self.env, cwd=self.path
        )
        self.services.append(service)
        return service


def in_utc(moment: datetime | None) -> datetime | None:
    """Return a moment of the database in UTC; SQLite's have no zone and are UTC."""
    if moment is None:
        return None
    return moment.astimezone(timezone.utc) if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
