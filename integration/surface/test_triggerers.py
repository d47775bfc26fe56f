"""Deferred sensors in real triggerers: raced, frozen, killed, with a slow secrets backend, for tasks that are gone.

What becomes of a task is read from Airflow's database, where the triggerer puts the event; `test_deferred_sensors` goes
on from there with a Scheduler.
"""

import json
import re
import signal
import subprocess
import sys
import textwrap
import uuid
from dataclasses import dataclass, field

import pytest

from integration.lab.airflow import PROJECT, AirflowHome, AirflowSettings, rmq_connection
from integration.lab.postgres import create_database, drop_database
from integration.lab.waiting import wait_until

RMQ_TRIGGER = "airflow_provider_rmq.triggers.rmq.RMQTrigger"
#: Seconds a look-up of a connection takes.
SECRETS_DELAY = 2.0

MODULES = {
    "slow_secrets": """
        import os, time
        from airflow.models import Connection
        from airflow.secrets import BaseSecretsBackend

        class SlowBackend(BaseSecretsBackend):
            def get_connection(self, conn_id):
                time.sleep(float(os.environ["SECRETS_DELAY"]))
                return Connection.from_json(os.environ["SECRET_CONNECTION"], conn_id=conn_id)
    """,
    "slow_triggers": """
        import asyncio, os
        from airflow_provider_rmq.triggers.rmq import RMQTrigger

        class Path:
            def serialize(self):
                return f"slow_triggers.{type(self).__name__}", super().serialize()[1]

        class BeforeTheAck(Path, RMQTrigger):
            async def _answer(self, delivery, hand_over):
                print(f"before the ack: {hand_over.name}", flush=True)
                await asyncio.sleep(600)

        class AfterTheAck(Path, RMQTrigger):
            async def _answer(self, delivery, hand_over):
                await super()._answer(delivery, hand_over)
                print(f"after the ack: {hand_over.name}", flush=True)
                await asyncio.sleep(600)
    """,
}


@dataclass
class Triggerers:
    """An Airflow of triggerers only."""

    home: AirflowHome
    waiting: dict[str, int] = field(default_factory=dict)

    def defer(self, dag_id, *triggers):
        """Make a DAG whose tasks wait for these triggers."""
        self.waiting[dag_id] = len(triggers)
        subprocess.run(
            [sys.executable, "-m", "integration.surface.deferred_tasks"],
            check=True,
            env=self.home.env,
            input=json.dumps([{"dag_id": dag_id, "triggers": triggers}]).encode(),
            stdout=subprocess.DEVNULL,
        )

    def start(self):
        return self.home.start_triggerer()

    @property
    def log(self):
        """What the triggerers say, in their own log and in those of the tasks."""
        files = [self.home.logs / "triggerer.log", *(self.home.logs / "tasks").rglob("*.log*")]
        return "".join(file.read_text(errors="replace") for file in files if file.is_file())

    def states(self, dag_id):
        rows = self.home.rows("SELECT state FROM task_instance WHERE dag_id = :dag_id ORDER BY task_id", dag_id=dag_id)
        return [row["state"] for row in rows]

    def events(self, dag_id):
        """The events that tasks will resume with; Airflow wraps what it stores as JSON."""
        rows = self.home.rows("SELECT next_kwargs FROM task_instance WHERE dag_id = :dag_id", dag_id=dag_id)
        stored = [json.loads(row["next_kwargs"]) if isinstance(row["next_kwargs"], str) else row["next_kwargs"]
                  for row in rows]  # fmt: skip
        return [plain(each)["event"] for each in stored if "event" in plain(each)]

    def execute(self, sql, **parameters):
        from sqlalchemy import create_engine, text
        from sqlalchemy.pool import NullPool

        with create_engine(self.home.database_url, future=True, poolclass=NullPool).begin() as connection:
            connection.execute(text(sql), parameters)

    def wait_for_events(self, dag_id, seconds=60):
        wait_until(
            lambda: len(self.events(dag_id)) == self.waiting[dag_id],
            seconds,
            "every task to have its event",
            show=lambda: (self.states(dag_id), self.log[-2000:]),
        )
        return self.events(dag_id)


def plain(value):
    """Airflow's serialised form as it was: dicts come wrapped in `__var`."""
    if isinstance(value, dict):
        return plain(value["__var"]) if "__var" in value else {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def triggerers(tmp_path_factory, broker_url, postgres_url, management_url):
    path = tmp_path_factory.mktemp("triggerers")
    for name, text in MODULES.items():
        (path / f"{name}.py").write_text(textwrap.dedent(text))
    connection = rmq_connection(broker_url, management_url=management_url)
    name = f"rmqtest_triggerers_{uuid.uuid4().hex[:8]}"
    database_url = create_database(postgres_url, name)
    AirflowHome(path / "airflow", AirflowSettings(database_url=database_url)).prepare(connections={})
    settings = AirflowSettings(
        database_url=database_url,
        environment={
            "PYTHONPATH": f"{PROJECT}:{path}",
            "AIRFLOW__SECRETS__BACKEND": "slow_secrets.SlowBackend",
            "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "6",
            "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
            "SECRETS_DELAY": str(SECRETS_DELAY),
            "SECRET_CONNECTION": json.dumps(connection),
        },
    )
    home = AirflowHome(path / "airflow", settings)
    try:
        yield Triggerers(home)
    finally:
        home.stop()
        drop_database(postgres_url, name)


def waiting_for(queue, mode="push", path=RMQ_TRIGGER, **given):
    kwargs = {"rmq_conn_id": "secret", "queue_name": queue, "filter_data": {}, "poll_interval": 1.0, "mode": mode}
    return path, {**kwargs, "message_wait_timeout": None, "ack_unmatched": False, **given}


def bodies(events):
    return sorted(event["message"]["body"] for event in events)


def left(vhost, queue, count):
    wait_until(lambda: vhost.depth(queue) == count, 20, f"{count} messages", show=lambda: vhost.depth(queue))


COUNT = 50


def test_fifty_sensors_raced_by_two_triggerers_take_one_message_each(triggerers, vhost, queue_name):
    """B31: both started at the same moment; B33: each look-up of a connection takes a second."""
    vhost.declare(queue_name, arguments={"x-queue-type": "quorum"})
    triggerers.defer("raced", *(waiting_for(queue_name, ("push", "pull")[n % 2]) for n in range(COUNT)))
    first, second = triggerers.start(), triggerers.start()
    wait_until(
        lambda: vhost.consumers(queue_name) == COUNT / 2, 120, "the consumers", show=lambda: triggerers.log[-800:]
    )

    vhost.publish(queue_name, *map(str, range(COUNT + 2)))
    taken = bodies(triggerers.wait_for_events("raced"))

    assert len(taken) == len(set(taken)) == COUNT
    left(vhost, queue_name, 2)
    with vhost.channel() as channel:
        rest = [channel.basic_get(queue_name, auto_ack=True) for _ in range(2)]
    assert sorted([*taken, *(body.decode() for _, _, body in rest)]) == sorted(map(str, range(COUNT + 2)))
    blocked = [
        float(seconds) for seconds in re.findall(r"async thread was blocked for ([\d.]+) seconds", triggerers.log)
    ]
    print("blocked, in seconds:", blocked)  # a busy machine has some; a look-up in the loop would take all of its time
    assert [seconds for seconds in blocked if seconds >= SECRETS_DELAY] == []
    for service in (first, second):
        service.require_alive()
        service.stop()


def test_a_triggerer_frozen_and_back_takes_no_message_from_the_tasks_of_the_other(triggerers, vhost, queue_name):
    """B31: both run the same triggers for a moment, and no message is acknowledged for an event nobody reads."""
    vhost.declare(queue_name)
    frozen = triggerers.start()
    triggerers.defer("frozen", *(waiting_for(queue_name, mode) for mode in ("push", "pull", "push")))
    wait_until(lambda: vhost.consumers(queue_name) == 2, 120, "the consumers")
    frozen.send(signal.SIGSTOP)
    other = triggerers.start()
    wait_until(
        lambda: vhost.consumers(queue_name) == 4, 120, "the other's consumers", show=lambda: triggerers.log[-800:]
    )
    frozen.send(signal.SIGCONT)

    vhost.publish(queue_name, *map(str, range(5)))
    taken = bodies(triggerers.wait_for_events("frozen"))

    assert len(taken) == len(set(taken)) == 3
    wait_until(lambda: vhost.consumers(queue_name) == 0, 20, "the end of every consumer")
    left(vhost, queue_name, 2)
    frozen.stop()
    other.stop()


def test_sensors_whose_tasks_or_dags_are_gone_leave_their_messages(triggerers, vhost, queue_name):
    """R47: failed by hand, cleared; B35: deleted DAG, paused DAG."""
    held, deleted, paused = (f"{queue_name}.{name}" for name in ("held", "deleted", "paused"))
    for queue in (held, deleted, paused):
        vhost.declare(queue)
    never = {"filter_headers": {"never": 1}}
    triggerers.defer("failed", *(waiting_for(held, mode, filter_data=never) for mode in ("push", "push")))
    triggerers.defer("deleted", waiting_for(deleted))
    triggerers.defer("paused", waiting_for(paused))
    triggerers.execute("UPDATE dag SET is_active = FALSE WHERE dag_id = 'deleted'")
    triggerers.execute("UPDATE dag SET is_paused = TRUE WHERE dag_id = 'paused'")
    service = triggerers.start()
    try:
        wait_until(lambda: vhost.consumers(held) == 2, 120, "the consumers", show=lambda: triggerers.log[-800:])
        for queue in (held, deleted, paused):
            vhost.publish(queue, "a", "b", "c")
        wait_until(lambda: vhost.depth(held) == 0, 30, "the misses to be held")

        triggerers.execute("UPDATE task_instance SET state = 'failed' WHERE dag_id = 'failed' AND task_id = 'wait_0'")
        triggerers.execute(
            "UPDATE task_instance SET state = NULL, trigger_id = NULL WHERE dag_id = 'failed' AND task_id = 'wait_1'"
        )
        wait_until(lambda: vhost.consumers(held) == 0, 30, "the consumers' end", show=lambda: triggerers.log[-800:])
        left(vhost, held, 3)
        assert "never retrieved" not in triggerers.log

        wait_until(lambda: "the DAG of its sensor is deleted" in triggerers.log, 30, "the line on the deleted DAG")
        left(vhost, deleted, 3)
        assert triggerers.states("deleted") == ["deferred"]

        assert bodies(triggerers.wait_for_events("paused")) == ["a"]
        left(vhost, paused, 2)
        assert triggerers.states("paused") == ["scheduled"]
    finally:
        service.stop()
        for queue in (held, deleted, paused):
            vhost.delete(queue)


def test_a_triggerer_killed_around_the_ack_loses_no_message(triggerers, vhost, queue_name):
    """R45: measured with `kill -9` on either side of the acknowledgement."""
    before, after = (f"{queue_name}.{name}" for name in ("before", "after"))
    for queue in (before, after):
        vhost.declare(queue)
        vhost.publish(queue, "a")
    triggerers.defer(
        "killed",
        waiting_for(before, path="slow_triggers.BeforeTheAck"),
        waiting_for(after, path="slow_triggers.AfterTheAck"),
    )
    service = triggerers.start()
    try:
        for line in ("before the ack: STORED", "after the ack: STORED"):
            wait_until(lambda line=line: line in triggerers.log, 120, line, show=lambda: triggerers.log[-800:])
        service.kill()

        # Both tasks resume with their message; the one whose ack was still to come is in its queue a second time.
        assert bodies(triggerers.wait_for_events("killed")) == ["a", "a"]
        assert triggerers.states("killed") == ["scheduled", "scheduled"]
        left(vhost, before, 1)
        assert vhost.depth(after) == 0
    finally:
        service.stop()
        for queue in (before, after):
            vhost.delete(queue)
