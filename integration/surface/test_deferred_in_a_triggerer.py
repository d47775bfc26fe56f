"""`RMQSensor` deferred in a real triggerer, pull and push, from the DAG file to the return value."""

import json
import textwrap

import pytest

from integration.lab.airflow import PROJECT
from integration.lab.waiting import wait_until

DAG_FILE = """
    import datetime as dt

    from airflow import DAG

    from airflow_provider_rmq.sensors.rmq import RMQSensor

    with DAG("waiting", schedule="@once", start_date=dt.datetime(2026, 1, 1), is_paused_upon_creation=False):
        for mode in ("pull", "push"):
            RMQSensor(
                task_id=mode,
                queue_name="{queue}",
                filter_headers={{"body.for": mode}},
                deferrable=True,
                mode=mode,
            )
        RMQSensor(
            task_id="skipped",
            queue_name="{queue}.empty",
            deferrable=True,
            mode="push",
            message_wait_timeout="{{{{ 2 + 3 }}}}",
        )
"""


@pytest.fixture
def deployment(airflow_home, vhost, queue_name):
    vhost.declare(queue_name)
    vhost.declare(f"{queue_name}.empty")
    # SQLite lets one process write at a time, and a triggerer beside a Scheduler gives up on a locked database.
    home = airflow_home(postgres=True, executor="LocalExecutor", environment={"PYTHONPATH": str(PROJECT)})
    (home.dags / "waiting.py").write_text(textwrap.dedent(DAG_FILE.format(queue=queue_name)))
    home.start_triggerer()
    home.start_scheduler()
    yield home
    vhost.delete(f"{queue_name}.empty")


def states(home):
    return {row["task_id"]: row["state"] for row in home.rows("SELECT task_id, state FROM task_instance")}


def pause(home, is_paused):
    from sqlalchemy import create_engine, text
    from sqlalchemy.pool import NullPool

    with create_engine(home.database_url, future=True, poolclass=NullPool).begin() as connection:
        connection.execute(text("UPDATE dag SET is_paused = :is_paused"), {"is_paused": is_paused})


def test_each_sensor_returns_its_message_and_nothing_else_is_taken(deployment, vhost, queue_name):
    """Pull, push and a wait that times out; B35: a DAG that is paused meanwhile goes on with its messages."""
    wait_until(
        lambda: states(deployment).get("pull") == states(deployment).get("push") == "deferred",
        120,
        "both sensors to be deferred",
        show=lambda: states(deployment),
    )

    pause(deployment, is_paused=True)
    vhost.publish(queue_name, json.dumps({"for": "nobody"}), json.dumps({"for": "push"}), json.dumps({"for": "pull"}))

    wait_until(
        lambda: states(deployment).get("pull") == states(deployment).get("push") == "scheduled",
        60,
        "both events to wait in their tasks",
        show=lambda: states(deployment),
    )
    pause(deployment, is_paused=False)
    wait_until(
        lambda: states(deployment) == {"pull": "success", "push": "success", "skipped": "skipped"},
        120,
        "the ends of all three sensors",
        show=lambda: states(deployment),
    )
    returned = {
        row["task_id"]: json.loads(bytes(row["value"]))["body"]
        for row in deployment.rows("SELECT task_id, value FROM xcom WHERE key = 'return_value'")
    }
    assert returned == {mode: json.dumps({"for": mode}) for mode in ("pull", "push")}
    wait_until(lambda: vhost.depth(queue_name) == 1, 40, "the message for nobody")
    assert vhost.consumers(queue_name) == 0
