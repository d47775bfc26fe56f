"""DAG files as a user writes them, their subscriptions, and the watcher's processes."""

from __future__ import annotations

from pathlib import Path

from integration.lab.airflow import AirflowHome
from integration.lab.processes import ProcessId, family
from integration.lab.waiting import wait_until

RUNNER = "airflow_provider_rmq.watcher.runner"


def taskflow_dag(dag_id: str, queue: str) -> str:
    """A DAG made by `@dag`, with one task."""
    return f"""
from datetime import datetime
from airflow.decorators import dag, task
from airflow_provider_rmq.watcher.decorators import rmq_trigger

@rmq_trigger(queue={queue!r}, conn_id="rmq_default")
@dag(dag_id={dag_id!r}, schedule=None, start_date=datetime(2024, 1, 1), catchup=False,
     is_paused_upon_creation=False, max_active_runs=100)
def factory():
    @task
    def process(**context):
        print(context["dag_run"].conf["body"])
    process()

factory()
"""


def object_dag(dag_id: str, queue: str) -> str:
    """A DAG object, without a task: the Scheduler finishes its runs at once."""
    return f"""
from datetime import datetime
from airflow import DAG
from airflow.operators.empty import EmptyOperator
from airflow_provider_rmq.watcher.decorators import rmq_trigger

DAG_ID = {dag_id!r}

with DAG(dag_id=DAG_ID, schedule=None, start_date=datetime(2024, 1, 1), catchup=False,
         is_paused_upon_creation=False) as dag:
    EmptyOperator(task_id="nothing")

rmq_trigger(queue={queue!r})(dag)
"""


def wait_until_listening(home: AirflowHome, *dag_ids: str) -> None:
    """Wait until the subscription of each DAG listens."""

    def all_listen() -> bool:
        rows = {row["dag_id"]: row for row in home.subscriptions()}
        return all(rows.get(dag_id, {}).get("consumer_status") == "listening" for dag_id in dag_ids)

    wait_until(all_listen, 120, f"{', '.join(dag_ids)} to listen", show=home.subscriptions)


def watcher_processes(above: int) -> dict[str, list[ProcessId]]:
    """Our processes below a process, by role."""
    found: dict[str, list[ProcessId]] = {"supervisor": [], "worker": []}
    for process in family(above):
        words = command_line(process.pid)
        if RUNNER in words:
            found[words[-1]].append(process)
    return found


def command_line(pid: int) -> list[str]:
    """The words a process was started with; none when it is gone."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return [word.decode(errors="replace") for word in raw.rstrip(b"\0").split(b"\0")]


def declared_dag(dag_id: str, **arguments: object) -> str:
    """A DAG object that declares `rmq_trigger` with these arguments; one task, so its runs end at once."""
    written = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return f"""
from datetime import datetime
from airflow import DAG
from airflow.operators.empty import EmptyOperator
from airflow_provider_rmq.watcher.decorators import rmq_trigger

with DAG(dag_id={dag_id!r}, schedule=None, start_date=datetime(2024, 1, 1), catchup=False,
         is_paused_upon_creation=False) as dag:
    EmptyOperator(task_id="nothing")

rmq_trigger({written})(dag)
"""
