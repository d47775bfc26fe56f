"""Operators in real task processes: killed, timed out, mapped, rendered natively."""

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from integration.lab.airflow import PROJECT
from integration.lab.waiting import wait_until

DAG_FILE = """
    import datetime as dt
    import pathlib
    import time

    from airflow import DAG

    from airflow_provider_rmq.operators.rmq_consume import RMQConsumeOperator
    from airflow_provider_rmq.operators.rmq_management import RMQQueueManagementOperator
    from airflow_provider_rmq.operators.rmq_publish import RMQPublishOperator

    QUEUE = {queue!r}

    def never_done(_properties, body):
        if body == "15":
            pathlib.Path({mark!r}).touch()
            time.sleep(600)
        return True

    moment = {{"schedule": None, "start_date": dt.datetime(2026, 1, 1)}}
    with DAG("killed", **moment):
        given = {{"queue_name": QUEUE, "filter_callable": never_done, "qos": {{"prefetch_count": 4}}}}
        RMQConsumeOperator(task_id="terminated", **given)
        RMQConsumeOperator(task_id="late", execution_timeout=dt.timedelta(seconds=2), **given)

    with DAG("mapped", render_template_as_native_obj=True, **moment):
        declare = RMQQueueManagementOperator.partial(
            task_id="declare", action="declare_queue", durable=True
        ).expand(queue_name=[QUEUE + ".a", QUEUE + ".b"])
        bind = RMQQueueManagementOperator.partial(
            task_id="bind", action="bind_queue", queue_name=QUEUE + ".a", exchange_name="amq.headers"
        ).expand(arguments=[{{"x-match": "all", "n": 1}}, {{"x-match": "all", "n": 2}}])
        message = {{"file": "s3://b/a.json", "ver": "1.0", "n": 1, "ok": True, "none": None, "t": "{{{{ ds }}}}",
                   "list": ["{{{{ 1 + 1 }}}}", 2.5], "raw": "100 % off"}}
        publish = RMQPublishOperator.partial(task_id="publish").expand_kwargs([
            {{"queue_name": QUEUE + ".a", "message": message}},
            {{"queue_name": QUEUE + ".b", "message": ["1.0", "{{{{ ds }}}}", {{"n": 3}}]}},
        ])
        consume = RMQConsumeOperator.partial(task_id="consume").expand(queue_name=[QUEUE + ".a", QUEUE + ".b"])
        declare >> bind >> publish >> consume
"""


@pytest.fixture
def home(airflow_home, vhost, queue_name, tmp_path):
    vhost.declare(queue_name)
    made = airflow_home(environment={"PYTHONPATH": str(PROJECT)})
    made.mark = tmp_path / "fifteen"
    (made.dags / "tasks.py").write_text(textwrap.dedent(DAG_FILE.format(queue=queue_name, mark=str(made.mark))))
    yield made
    for name in ("a", "b"):
        vhost.delete(f"{queue_name}.{name}")


def start(home, *words):
    program = Path(sys.executable).parent / "airflow"
    return subprocess.Popen(
        [program, *words], env=home.env, cwd=home.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_a_task_killed_or_timed_out_in_a_batch_leaves_every_message(home, vhost, queue_name):
    """SIGTERM to the process of a task, and `execution_timeout`, both in the middle of the filter's work."""
    vhost.publish(queue_name, *map(str, range(20)))

    with start(home, "tasks", "test", "killed", "terminated", "2026-01-01") as terminated:
        wait_until(home.mark.exists, 60, "the filter to be at work")
        assert vhost.depth(queue_name) < 20
        terminated.send_signal(signal.SIGTERM)
        said, _ = terminated.communicate(timeout=60)
    assert terminated.returncode != 0
    assert "SIGTERM" in said
    wait_until(lambda: vhost.depth(queue_name) == 20, 10, "all messages to be back after SIGTERM")

    with start(home, "tasks", "test", "killed", "late", "2026-01-01") as late:
        said, _ = late.communicate(timeout=60)
    assert late.returncode != 0
    assert "AirflowTaskTimeout" in said
    wait_until(lambda: vhost.depth(queue_name) == 20, 10, "all messages to be back after execution_timeout")


def test_mapped_operators_run_and_native_rendering_keeps_types(home, vhost, queue_name):
    """`expand` and `expand_kwargs` for publish, consume and management; R53 for real."""
    home.cli("dags", "test", "mapped", "2026-01-01")

    rows = home.rows("SELECT map_index, value FROM xcom WHERE task_id = 'consume' AND key = 'return_value'")
    returned = {row["map_index"]: json.loads(row["value"]) for row in rows}
    (only,) = [each["body"] for each in returned[0]]
    assert json.loads(only) == {
        "file": "s3://b/a.json",
        "ver": "1.0",
        "n": 1,
        "ok": True,
        "none": None,
        "t": "2026-01-01",
        "list": [2, 2.5],
        "raw": "100 % off",
    }
    assert [each["body"] for each in returned[1]] == ["1.0", "2026-01-01", '{"n": 3}']
    declared = home.rows("SELECT value FROM xcom WHERE task_id = 'declare' AND key = 'return_value' ORDER BY map_index")
    assert [json.loads(row["value"])["queue"] for row in declared] == [f"{queue_name}.a", f"{queue_name}.b"]
    with vhost.channel() as channel:
        import pika

        channel.basic_publish("amq.headers", "", b"x", pika.BasicProperties(headers={"n": 2}), mandatory=True)
    assert vhost.depth(f"{queue_name}.a") == 1
