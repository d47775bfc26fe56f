"""What the guarantee is worth: a worker that is killed at work, and two Schedulers on one database."""

import re
import signal
from collections import Counter

import pytest

from integration.lab.airflow import PROJECT
from integration.lab.waiting import wait_until
from integration.watcher.dags import object_dag, wait_until_listening, watcher_processes

COUNT = 2000
KILLED_AT = (200, 700, 1300)
MORE = 300


@pytest.fixture
def home(airflow_home, vhost, queue_name):
    vhost.declare(queue_name)
    made = airflow_home(
        postgres=True,
        executor="LocalExecutor",
        environment={"PYTHONPATH": str(PROJECT), "AIRFLOW_VAR_RMQ_WATCHER_RECONCILE_INTERVAL": "2"},
    )
    (made.dags / "orders.py").write_text(object_dag("orders", queue_name))
    return made


def run_ids(home):
    """The ids of all runs; a look that costs little while thousands are being made."""
    return [row["run_id"] for row in home.rows("SELECT run_id FROM dag_run WHERE dag_id = 'orders'")]


def wait_for_runs(home, count, seconds=180):
    wait_until(lambda: len(run_ids(home)) >= count, seconds, f"{count} runs", show=lambda: len(run_ids(home)))


def test_two_thousand_messages_start_two_thousand_runs_whatever_is_killed_and_whoever_else_consumes(
    home, vhost, queue_name
):
    """Acknowledged after the commit, found again by its id: none lost, none doubled."""
    first = home.start_scheduler()
    wait_until_listening(home, "orders")
    vhost.publish(queue_name, *["{}"] * COUNT, message_ids=(f"m{number}" for number in range(COUNT)))
    killed = []
    for runs in KILLED_AT:
        wait_for_runs(home, runs)
        worker = wait_until(lambda: watcher_processes(first.pid)["worker"], 60, "a worker")[0]
        assert worker.pid not in killed
        worker.send(signal.SIGKILL)
        killed.append(worker.pid)
    wait_for_runs(home, COUNT)

    assert sorted(run_ids(home)) == sorted(f"rmq__{queue_name}__m{number}" for number in range(COUNT))
    assert len(killed) == len(KILLED_AT)

    second = home.start_scheduler()
    wait_until(lambda: vhost.consumers(queue_name) == 2, 120, "both Schedulers' watchers to consume")
    vhost.publish(queue_name, *["{}"] * MORE, message_ids=(f"n{number}" for number in range(MORE)))
    vhost.publish(queue_name, *["{}"] * MORE, message_ids=(f"n{number}" for number in range(MORE)))
    wait_for_runs(home, COUNT + MORE)
    wait_until(lambda: vhost.depth(queue_name) == 0, 60, "the duplicates to be taken too")
    (home.dags / "orders.py").unlink()
    wait_until(lambda: not home.subscriptions(), 90, "the row to go", show=home.subscriptions)
    wait_until(lambda: vhost.consumers(queue_name) == 0, 60, "both to stop consuming")
    assert vhost.depth(queue_name) == 0, "what was taken is acknowledged, or it would be back"
    assert len(run_ids(home)) == len(set(run_ids(home))) == COUNT + MORE
    log = first.log.read_text()
    assert first.log == second.log
    misses = Counter(re.findall(r"is missing from the DAG files, miss (\d)", log))
    assert misses
    assert set(misses.values()) == {1}, "two Schedulers counted the same miss"
    assert len(re.findall(r"deleted after \d misses", log)) == 1
