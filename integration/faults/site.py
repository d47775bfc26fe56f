"""A site to be broken: a broker, a proxy in front of it, a database and a Scheduler of its own, used by many faults.

The watcher reaches the broker through the proxy, with a short heartbeat and an account of its own; the tests reach it
directly. `repair` undoes every fault and waits until both subscriptions listen again.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DBAPIError

from integration.faults.burst import Burst, Run
from integration.faults.figures import FIGURES, Figure
from integration.lab import faults
from integration.lab.airflow import PROJECT, AirflowHome, AirflowSettings, in_utc, rmq_connection
from integration.lab.broker_lab import BrokerLab
from integration.lab.fault_proxy import ProxyThread
from integration.lab.lab_state import LabSettings
from integration.lab.management import EVERYTHING, quote
from integration.lab.postgres import Postgres
from integration.lab.processes import ProcessId, Service
from integration.lab.waiting import wait_until
from integration.vhost import Vhost
from integration.watcher.dags import watcher_processes

VHOST, USER, PASSWORD = "rmqtest-faults", "watcher", "the watcher's own"
ORDERS, COOLED = "faults.orders", "faults.cooled"
#: Seconds between heartbeats of the watcher's connections: what bounds the black-hole tests.
HEARTBEAT = 4
COOLDOWN = 3
CONN_ID = "rmq_default"
INTERVAL_VARIABLE = "rmq_watcher_reconcile_interval"

DAG_FILE = """
from datetime import datetime
from airflow import DAG
from airflow.operators.empty import EmptyOperator
from airflow_provider_rmq.watcher.decorators import rmq_trigger

with DAG(dag_id={dag_id!r}, schedule=None, start_date=datetime(2024, 1, 1), catchup=False,
         is_paused_upon_creation=False, max_active_runs=1) as dag:
    EmptyOperator(task_id="nothing")

rmq_trigger({arguments})(dag)
"""


def dag_file(dag_id: str, **arguments: Any) -> str:
    """A DAG whose runs wait in the queue: the Scheduler works on one at a time, so that it stays quiet."""
    return DAG_FILE.format(dag_id=dag_id, arguments=", ".join(f"{name}={value!r}" for name, value in arguments.items()))


@dataclass
class Site:
    """Everything that can be broken, and how to look at what it does."""

    path: Path
    settings: LabSettings = field(default_factory=LabSettings)
    queue_arguments: dict[str, Any] = field(default_factory=dict)
    through_proxy: bool = True

    def __enter__(self) -> Site:
        self._stack = contextlib.ExitStack()
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _build(self) -> None:
        self.lab = self._stack.enter_context(BrokerLab(self.path / "broker"))
        self.lab.up(self.settings)
        self._prepare_broker()
        self.postgres = Postgres(self.path / "postgres")
        self._stack.callback(self.postgres.remove)
        self.postgres.start()
        node = self.lab.node()
        self.proxy = self._stack.enter_context(ProxyThread(("127.0.0.1", node.amqp)))
        settings = AirflowSettings(
            executor="LocalExecutor",
            database_url=self.postgres.create_database("airflow"),
            environment={"PYTHONPATH": str(PROJECT)},
        )
        self.home = self._stack.enter_context(AirflowHome(self.path / "airflow", settings))
        self.home.prepare(connections={CONN_ID: self.connection()})
        (self.home.dags / "orders.py").write_text(dag_file("orders", queue=ORDERS))
        (self.home.dags / "cooled.py").write_text(dag_file("cooled", queue=COOLED, cooldown=COOLDOWN))
        self.scheduler = self.start_scheduler()
        self.wait_until_listening()

    def _prepare_broker(self) -> None:
        management = self.lab.management()
        management.create_vhost(VHOST)
        self.restore_account()
        for queue in (ORDERS, COOLED):
            self.declare(queue)

    # -- parts

    @property
    def series(self) -> str:
        """The broker's series, for the figures."""
        return ".".join(self.lab.version.split(".")[:2])

    def publisher_url(self) -> str:
        """Where the tests publish: a node that runs, past the proxy."""
        running = self.lab.running()
        return self.lab.amqp_url(vhost=VHOST, node=running[0].name if running else None)

    @property
    def vhost(self) -> Vhost:
        """The virtual host, as administrator."""
        return Vhost(self.publisher_url())

    def connection(self, password: str = PASSWORD) -> dict[str, Any]:
        """The Airflow connection of the watcher."""
        fields = rmq_connection(self.lab.amqp_url(user=USER, password=password, vhost=VHOST))
        if self.through_proxy:
            fields["port"] = self.proxy.port
        else:
            fields["host"] = ",".join(f"127.0.0.1:{node.amqp}" for node in self.lab.state.nodes.values())
        fields["extra"] = json.dumps({"heartbeat": HEARTBEAT, "management_url": self.lab.management_url()})
        return fields

    def replace_scheduler(self) -> None:
        """Start another Scheduler in place of one that is gone, or soon will be."""
        self.scheduler.stop()
        self.scheduler = self.start_scheduler()

    def start_scheduler(self) -> Service:
        """Start a Scheduler, and with it a watcher."""
        return self.home.start_scheduler()

    def process(self, role: str) -> ProcessId:
        """The supervisor or the worker below the present Scheduler."""
        return wait_until(lambda: watcher_processes(self.scheduler.pid)[role], 60, f"the {role}")[0]

    def declare(self, queue: str, **arguments: Any) -> None:
        """Declare a queue with the site's own arguments."""
        self.vhost.declare(queue, arguments={**self.queue_arguments, **arguments})

    def restore_account(self, password: str = PASSWORD) -> None:
        """Give the watcher's account its password, tag and permissions."""
        management = self.lab.management()
        management.create_user(USER, password, tags="management")
        management.grant(USER, VHOST)

    def grant(self, read: str = EVERYTHING) -> None:
        """Change what the watcher's account may read."""
        self.lab.management().grant(USER, VHOST, read=read)

    # -- looking

    def rows(self) -> dict[str, tuple[str, str | None]]:
        """Status and reason of each subscription, by DAG."""
        return {row["dag_id"]: (row["consumer_status"], row["last_error"]) for row in self.home.subscriptions()}

    def status(self, dag_id: str = "orders") -> str:
        """The status of a subscription as its row has it."""
        return self.rows().get(dag_id, ("", None))[0]

    def runs(self, dag_id: str) -> list[Run]:
        """The runs of a DAG, oldest first; none while the database is away."""
        try:
            found = self.home.rows(
                "SELECT run_id, queued_at FROM dag_run WHERE dag_id = :dag_id ORDER BY id", dag_id=dag_id
            )
        except DBAPIError:
            return []
        return [Run(row["run_id"], moment) for row in found if (moment := in_utc(row["queued_at"])) is not None]

    def messages(self, queue: str) -> int:
        """Ready and unacknowledged messages of a queue, as the broker's statistics have it."""
        path = f"queues/{quote(VHOST)}/{quote(queue)}?disable_stats=false"
        return int(self.lab.management().get(path).get("messages", -1))

    def sources(self, queue: str) -> set[str]:
        """The exchanges a queue is bound to."""
        return {item["source"] for item in self.lab.management().get(f"queues/{quote(VHOST)}/{quote(queue)}/bindings")}

    def wait_until_empty(self, queue: str) -> None:
        """Wait until every message of a queue is acknowledged."""
        wait_until(lambda: self.messages(queue) == 0, 30, f"{queue} to be empty", show=lambda: self.messages(queue))

    def wait_until_listening(self, timeout: float = 120) -> None:
        """Wait until both subscriptions listen."""
        listening = {"orders": ("listening", None), "cooled": ("listening", None)}
        wait_until(lambda: self.rows() == listening, timeout, "both subscriptions to listen", show=self.rows)

    def wait_for_row(self, *, saying: str, timeout: float, dag_id: str = "orders") -> str:
        """Wait until a row reads `error` with words that match; its text."""

        def told() -> str | None:
            status, error = self.rows().get(dag_id, ("", None))
            return error if status == "error" and error and re.search(saying, error, re.IGNORECASE) else None

        return wait_until(told, timeout, f"the row of {dag_id} to say {saying!r}", show=self.rows)

    def wait_until_not_listening(self, timeout: float, dag_id: str = "orders") -> None:
        """Wait until the row of a subscription admits that nothing is consumed."""
        wait_until(lambda: self.status(dag_id) != "listening", timeout, "the row to admit the fault", show=self.rows)

    # -- breaking, and mending again

    def burst(self, queue: str = ORDERS, dag_id: str = "orders", *, exchange: str = "", routing_key: str = "") -> Burst:
        """A stream of messages for the time of its block, to the queue or through an exchange."""
        return Burst(self, queue, dag_id, exchange=exchange, routing_key=routing_key)

    def hold_back(self, queue: str, bodies: list[str], seconds: float) -> None:
        """Publish messages that reach a queue later, also when publishers are blocked by then."""
        held = f"{queue}.held"
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue, "x-expires": 60_000}
        self.vhost.declare(held, durable=False, arguments=arguments)
        self.vhost.publish(held, *bodies, message_ids=iter(bodies), expiration=str(int(seconds * 1000)))

    @contextlib.contextmanager
    def quick_cycles(self, seconds: int = 4) -> Iterator[None]:
        """Let the watcher cycle more often, from a new worker's first cycle on."""
        self.home.execute(
            "INSERT INTO variable (key, val, is_encrypted) VALUES (:key, :val, false)",
            key=INTERVAL_VARIABLE,
            val=str(seconds),
        )
        self.replace_worker()
        try:
            yield
        finally:
            self.home.execute("DELETE FROM variable WHERE key = :key", key=INTERVAL_VARIABLE)
            self.replace_worker()

    def replace_worker(self) -> None:
        """Kill the worker and wait for the next one."""
        killed = self.process("worker")
        killed.send(signal.SIGKILL)
        wait_until(lambda: self.process("worker").pid != killed.pid, 60, "another worker")

    def judge(self, fault: str, burst: Burst, seconds: float | None = None, target: float | None = None) -> None:
        """Note the figure of a fault, and fail when anything was lost or doubled."""
        lost, doubled = burst.settle()
        figure = Figure(fault, self.series, seconds, target, len(burst.confirmed), lost, doubled)
        FIGURES.append(figure)
        assert (figure.lost, figure.doubled) == (0, 0), str(figure)
        assert figure.published > 0

    def repair(self) -> None:
        """Undo every fault and wait until the site works."""
        self.scheduler.send(signal.SIGCONT)
        self.proxy.order("normal")
        self.lab.resume()
        for node in self.lab.state.nodes.values():
            if not node.running:
                self.lab.start(node.name)
        if not self.postgres.running:
            self.postgres.start()
        if self._alarmed():
            faults.set_alarm(self.lab, "memory", raised=False)
        self.restore_account()
        if not self.scheduler.alive:
            self.scheduler = self.start_scheduler()
        self.wait_until_listening()

    def _alarmed(self) -> bool:
        return any(node.get("mem_alarm") for node in self.lab.management().get("nodes"))
