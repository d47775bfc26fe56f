"""A message becomes a DAG run: once, with all of the message, acknowledged when the run is there."""

import json

import pytest

from integration.lab.waiting import wait_until
from integration.watcher.dags import object_dag, taskflow_dag, wait_until_listening

COUNT = 50


@pytest.fixture
def other_queue(vhost, queue_name):
    name = f"{queue_name}.other"
    yield name
    vhost.delete(name)


def ids():
    return iter(f"m{number}" for number in range(COUNT))


def test_fifty_messages_start_fifty_runs_and_their_duplicates_start_none(
    airflow_home, vhost, queue_name, other_queue, management
):
    for queue in (queue_name, other_queue):
        vhost.declare(queue)
    home = airflow_home(postgres=True, executor="LocalExecutor")
    (home.dags / "orders.py").write_text(taskflow_dag("orders", queue_name))
    (home.dags / "events.py").write_text(object_dag("events", other_queue))
    scheduler = home.start_scheduler()
    wait_until_listening(home, "orders", "events")
    bodies = [json.dumps({"n": number, "name": "Jürgen"}) for number in range(COUNT)]

    vhost.publish(queue_name, *bodies, message_ids=ids(), headers={"kind": "order", "tags": ["a", None]})
    wait_until(lambda: len(home.dag_runs("orders")) >= COUNT, 120, "all runs", show=lambda: vhost.depth(queue_name))

    runs = home.dag_runs("orders")
    assert sorted(run.run_id for run in runs) == sorted(f"rmq__{queue_name}__m{number}" for number in range(COUNT))
    (row,) = [row for row in home.subscriptions() if row["dag_id"] == "orders"]
    assert runs[0].conf == {
        "source": "immediate",
        "body": bodies[int(runs[0].run_id.rpartition("m")[2])],
        "headers": {"kind": "order", "tags": ["a", None]},
        "routing_key": queue_name,
        "queue": queue_name,
        "subscription_id": row["id"],
    }

    vhost.publish(queue_name, *bodies, message_ids=ids(), headers={"kind": "order"})
    vhost.publish(other_queue, "{}", message_ids=iter(["e1"]))
    wait_until(lambda: home.dag_runs("events"), 60, "the run of the DAG object")
    wait_until(lambda: management.messages(queue_name) == 0, 60, "the queue to be empty, unacknowledged ones included")

    assert len(home.dag_runs("orders")) == COUNT
    wait_until(
        lambda: all(run.state == "success" for run in home.dag_runs("orders")),
        240,
        "all runs to succeed",
        show=lambda: [run.state for run in home.dag_runs("orders")],
    )

    scheduler.stop()
    assert {row["consumer_status"] for row in home.subscriptions()} == {"disconnected"}


def test_a_message_without_an_id_starts_a_run_of_its_own_each_time(airflow_home, vhost, queue_name, management):
    vhost.declare(queue_name)
    home = airflow_home()
    (home.dags / "orders.py").write_text(object_dag("orders", queue_name))
    home.start_scheduler()
    wait_until_listening(home, "orders")

    vhost.publish(queue_name, b"\xff\xfe not text", b"")
    wait_until(lambda: len(home.dag_runs("orders")) == 2, 60, "two runs", show=home.subscriptions)

    assert sorted(run.conf["body"] for run in home.dag_runs("orders")) == ["", "\ufffd\ufffd not text"]
    wait_until(lambda: management.messages(queue_name) == 0, 60, "the queue to be empty")


def test_a_queue_that_is_declared_later_is_consumed_without_waiting_for_a_cycle(airflow_home, vhost, queue_name):
    home = airflow_home()
    (home.dags / "orders.py").write_text(object_dag("orders", queue_name))
    home.start_scheduler()

    def says_the_queue_is_missing():
        return [row for row in home.subscriptions() if "does not exist" in (row["last_error"] or "")]

    wait_until(says_the_queue_is_missing, 120, "the row to name the missing queue", show=home.subscriptions)
    vhost.declare(queue_name)
    wait_until_listening(home, "orders")
    vhost.delete(queue_name)
    wait_until(says_the_queue_is_missing, 30, "the row to say that the queue is gone", show=home.subscriptions)
    vhost.declare(queue_name)
    vhost.publish(queue_name, "back", message_ids=iter(["m1"]))

    wait_until(lambda: home.dag_runs("orders"), 30, "the run", show=home.subscriptions)
