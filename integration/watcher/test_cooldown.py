"""Cooldown from the DAG file to the run: one run for each window, whatever arrives in it."""

import json
import re

import pytest

from integration.lab.airflow import PROJECT
from integration.lab.waiting import wait_until
from integration.watcher.dags import declared_dag, wait_until_listening

COOLDOWN = 12
ENVIRONMENT = {"PYTHONPATH": str(PROJECT), "AIRFLOW_VAR_RMQ_WATCHER_RECONCILE_INTERVAL": "8"}


@pytest.fixture
def queues(vhost, queue_name):
    names = [f"{queue_name}.{end}" for end in ("a", "b", "kept")]
    for name in names:
        vhost.declare(name)
    yield names
    for name in [*names, "rmq_watcher.fire", "rmq_watcher.pending.cooled", "rmq_watcher.pending.kept"]:
        vhost.delete(name)
    with vhost.channel() as channel:
        channel.exchange_delete("rmq_watcher.fire")


def test_each_window_starts_one_run(airflow_home, vhost, queues, management):
    first, second, kept = queues
    home = airflow_home(postgres=True, executor="LocalExecutor", environment=ENVIRONMENT)
    (home.dags / "cooled.py").write_text(declared_dag("cooled", queues=[first, second], cooldown=COOLDOWN))
    (home.dags / "kept.py").write_text(
        declared_dag(
            "kept", queue=kept, cooldown=COOLDOWN, keep_payload=True, filter_data={"filter_headers": {"kind": "x"}}
        )
    )
    home.start_scheduler()
    wait_until_listening(home, "cooled", "kept")

    for queue in (first, second):
        vhost.publish(queue, *(f"body {number}" for number in range(10)), headers={"kind": "order"})
    vhost.publish(kept, '{"n": 1}', headers={"kind": "x", "tags": ["a", None]})
    wait_until(lambda: vhost.depth("rmq_watcher.pending.cooled") == 1, 30, "the marker")
    assert home.dag_runs("cooled") == []

    wait_until(lambda: home.dag_runs("cooled") and home.dag_runs("kept"), 60, "both runs", show=home.subscriptions)
    wait_until(lambda: all(management.messages(queue) == 0 for queue in queues), 30, "all messages to be acknowledged")
    (run,) = home.dag_runs("cooled")
    assert re.fullmatch(r"rmq_cooldown__cooled__[0-9a-f-]{36}", run.run_id)
    assert run.conf == {
        "source": "cooldown",
        "dag_id": "cooled",
        "body": "",
        "headers": {},
        "routing_key": "cooled",
        "queue": "rmq_watcher.fire",
        "subscription_id": None,
    }
    (kept_run,) = home.dag_runs("kept")
    assert kept_run.conf == {
        "source": "cooldown",
        "dag_id": "kept",
        "body": json.dumps({"n": 1}),
        "headers": {"kind": "x", "tags": ["a", None]},
        "routing_key": "kept",
        "queue": "rmq_watcher.fire",
        "subscription_id": None,
    }

    vhost.publish(second, "the next window")
    wait_until(lambda: len(home.dag_runs("cooled")) == 2, 60, "the run of the next window", show=home.subscriptions)

    # B19. The marker finds no place: the message stays, the row says why, and the next cycle declares the queue again.
    vhost.delete("rmq_watcher.pending.cooled")
    vhost.publish(first, "after the pending queue is gone")
    wait_until(
        lambda: [row for row in home.subscriptions() if "rmq_watcher.pending.cooled" in (row["last_error"] or "")],
        30,
        "the row to name the missing pending queue",
        show=home.subscriptions,
    )
    wait_until(lambda: len(home.dag_runs("cooled")) == 3, 120, "the third run", show=home.subscriptions)
    wait_until_listening(home, "cooled", "kept")
