"""One watcher under a real Scheduler through bad weather: an unreadable message, a denied tag, a frozen database.

Everything shares one Scheduler, whose database link goes through a proxy of the test's own.
"""

import os
import struct
import uuid
from urllib.parse import urlsplit, urlunsplit

import pytest
from sqlalchemy import text

from integration.lab.airflow import PROJECT
from integration.lab.fault_proxy import ProxyThread
from integration.lab.waiting import wait_until
from integration.surface.raw_headers import field, publish_raw
from integration.watcher.dags import object_dag, wait_until_listening

COUNT = 5
DAG_IDS = [f"dag{number}" for number in range(COUNT)]
INTERVAL, BUDGET = 2, 6


def nested(depth):
    value = b""
    for _ in range(depth):
        value = b"A" + struct.pack(">I", len(value)) + value
    return field("deep", b"", value)


def through(proxy, url):
    parts = urlsplit(url)
    login = parts.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{login}@127.0.0.1:{proxy.port}"))


@pytest.fixture
def queues(vhost):
    names = [vhost.declare(f"rmqtest.{os.getpid()}.{uuid.uuid4().hex[:8]}.{number}") for number in range(COUNT)]
    yield names
    for name in names:
        vhost.delete(name)


class Watcher:
    """The Scheduler with its watcher, and questions to the database."""

    def __init__(self, home, service):
        self.home, self.service = home, service

    def subscription(self, dag_id):
        return next((row for row in self.home.subscriptions() if row["dag_id"] == dag_id), {})

    def connection(self):
        return next(iter(self.home.rows("SELECT * FROM rmq_watcher_conn_status WHERE conn_id = 'rmq_default'")), {})

    def switch(self, dag_id, enabled):
        with self.home._connect() as connection, connection.begin():
            connection.execute(
                text("UPDATE rmq_watcher_subscriptions SET enabled = :on WHERE dag_id = :dag"),
                {"on": enabled, "dag": dag_id},
            )

    def run_ids(self):
        return sorted(run.run_id for dag_id in DAG_IDS for run in self.home.dag_runs(dag_id))


@pytest.fixture
def weather(airflow_home, queues):
    """The Scheduler of five DAGs, and the proxy before its database; the test itself goes there directly."""
    environment = {
        "PYTHONPATH": str(PROJECT),
        "AIRFLOW_VAR_RMQ_WATCHER_RECONCILE_INTERVAL": str(INTERVAL),
        "AIRFLOW_VAR_RMQ_WATCHER_CYCLE_TIMEOUT": str(BUDGET),
    }
    home = airflow_home(postgres=True, executor="LocalExecutor", environment=environment)
    for dag_id, queue in zip(DAG_IDS, queues, strict=True):
        (home.dags / f"{dag_id}.py").write_text(object_dag(dag_id, queue))
    parts = urlsplit(home.database_url)
    with ProxyThread((parts.hostname, parts.port or 5432)) as proxy:
        environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = through(proxy, home.database_url)
        yield Watcher(home, home.start_scheduler()), proxy
        proxy.order("normal")
        home.stop()


def test_another_replicas_word_a_poisoned_queue_and_a_frozen_database(weather, vhost, queues, management):
    """L14, L30, and the budget of a cycle."""
    watcher, proxy = weather
    wait_until_listening(watcher.home, *DAG_IDS)

    the_rows_follow_the_broker(watcher)
    neighbours_of_a_poisoned_queue_go_on(watcher, vhost, queues, management)
    a_frozen_database_ends_a_cycle_and_loses_nothing(watcher, vhost, queues, proxy)


def the_rows_follow_the_broker(watcher):
    def connected():
        row = watcher.connection()
        numbers = (row.get("status"), row.get("consumer_count"), row.get("broker_consumer_count"))
        return numbers == ("connected", COUNT, COUNT)

    wait_until(connected, 60, "the broker to confirm all consumers", show=watcher.connection)
    with watcher.home._connect() as connection, connection.begin():
        connection.execute(
            text("UPDATE rmq_watcher_conn_status SET status = 'error', last_error = 'the other replica'")
        )
        connection.execute(
            text("UPDATE rmq_watcher_subscriptions SET consumer_status = 'error', last_error = 'the other replica'")
        )

    wait_until(connected, 30, "the connection's row to be repaired", show=watcher.connection)
    wait_until_listening(watcher.home, *DAG_IDS)
    assert watcher.connection()["last_error"] is None


def neighbours_of_a_poisoned_queue_go_on(watcher, vhost, queues, management):
    culprit = queues[0]
    publish_raw(vhost, culprit, nested(400))
    vhost.publish(culprit, "behind it", message_ids=iter(["behind"]))

    row = wait_until(
        lambda: (found := watcher.subscription(DAG_IDS[0]))["consumer_status"] == "error" and found,
        30,
        "the culprit's row",
        show=watcher.home.subscriptions,
    )
    assert culprit in row["last_error"]
    assert "header cannot be decoded" in row["last_error"]
    assert "ackmode=ack_requeue_false" in row["last_error"]
    for number, queue in enumerate(queues[1:], 1):
        vhost.publish(queue, "x", message_ids=iter([f"n{number}"]))
    wait_until(lambda: len(watcher.run_ids()) == COUNT, 60, "a run of each, the culprit's too", show=watcher.run_ids)
    listening = [watcher.subscription(dag_id)["consumer_status"] for dag_id in DAG_IDS[1:]]
    assert listening == ["listening"] * (COUNT - 1)

    # The way out that the row names.
    watcher.switch(DAG_IDS[0], False)
    wait_until(lambda: vhost.depth(culprit) == 1, 30, "the message to be back in its queue")
    assert management.take(culprit) == 1
    watcher.switch(DAG_IDS[0], True)
    wait_until_listening(watcher.home, *DAG_IDS)
    assert watcher.subscription(DAG_IDS[0])["last_error"] is None


def a_frozen_database_ends_a_cycle_and_loses_nothing(watcher, vhost, queues, proxy):
    before = len(watcher.run_ids())
    proxy.order("blackhole")
    for number, queue in enumerate(queues):
        vhost.publish(queue, "x", message_ids=iter([f"frozen{number}"]))
    log = watcher.service.log
    wait_until(lambda: "exceeded its budget of 6 s in phase" in log.read_text(), 60, "the cycle to run out of time")
    proxy.order("normal")

    wait_until(lambda: len(watcher.run_ids()) == before + COUNT, 120, "all runs", show=watcher.run_ids)
    wait_until_listening(watcher.home, *DAG_IDS)
    assert sum("frozen" in run_id for run_id in watcher.run_ids()) == COUNT
    wait_until(lambda: all(vhost.depth(queue) == 0 for queue in queues), 30, "the queues to be empty")
