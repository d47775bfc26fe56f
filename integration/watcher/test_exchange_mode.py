"""Exchange mode, objects that exist otherwise, and orphans: one Scheduler for all, each test with DAGs of its own."""

import json
import os
import subprocess
import sys
from contextlib import suppress

import pika
import pika.exceptions
import pytest

from integration.lab.airflow import PROJECT, AirflowHome, AirflowSettings, rmq_connection
from integration.lab.postgres import create_database, drop_database
from integration.lab.waiting import wait_until
from integration.watcher.dags import declared_dag, wait_until_listening

EIGHT_HOURS = 28_800_000
CYCLE = 4
LONG = "long_" + "d" * 240
OWN = ("routed", "moved", "unmirrored", "bare", "other_type", "direct", "orphaned")
SUB, PENDING = "rmq_watcher.sub.", "rmq_watcher.pending."


def exchange_of(dag_id):
    return f"rmqtest.{os.getpid()}.{dag_id[:12]}"


def pending_arguments(dag_id):
    return {
        "x-dead-letter-exchange": "rmq_watcher.fire",
        "x-dead-letter-routing-key": dag_id,
        "x-max-length": 1,
        "x-overflow": "reject-publish",
    }


def mode(dag_id, *keys, **changes):
    return declared_dag(dag_id, exchange=exchange_of(dag_id), routing_keys=list(keys), **changes)


FILES = {
    "routed": declared_dag(
        "routed",
        exchange=exchange_of("routed"),
        routing_keys=["eu.*"],
        routing_key_ids=["7"],
        routing_key_status="done",
    ),
    "moved": mode("moved", "a", "b"),
    "unmirrored": mode("unmirrored", "a", mirror=False),
    "bare": mode("bare", "a", conn_id="rmq_bare"),
    LONG: mode(LONG, "a"),
    "other_type": mode("other_type", "a"),
    "direct": mode("direct", "a"),
    "no_room": declared_dag("no_room", queue="rmqtest.no_room", cooldown=5),
    "spread": declared_dag("spread", queue="rmqtest.spread", cooldown=2, conn_id="rmq_bare"),
    "locked": declared_dag("locked", queue="rmqtest.locked"),
    "orphaned": mode("orphaned", "a"),
}


@pytest.fixture(scope="module")
def broker(vhost, broker_url):
    """What was there before the watcher came, and the channel that holds the exclusive queue."""
    owner = pika.BlockingConnection(pika.URLParameters(broker_url))
    with vhost.channel() as channel:
        channel.queue_declare("rmqtest.spread", durable=True)
        channel.queue_declare("rmqtest.no_room", durable=True)
        channel.queue_declare(f"{SUB}other_type", durable=True, arguments={"x-queue-type": "quorum"})
        channel.queue_declare(
            f"{PENDING}no_room", durable=True, arguments={**pending_arguments("no_room"), "x-max-length": 7}
        )
        channel.exchange_declare(exchange_of("direct"), "direct", durable=True)
    owner.channel().queue_declare("rmqtest.locked", exclusive=True)
    yield owner
    with suppress(pika.exceptions.AMQPError):
        owner.close()
    with vhost.channel() as channel:
        names = [f"{SUB}{dag_id}" for dag_id in OWN] + [f"{PENDING}no_room", f"{PENDING}spread", "rmq_watcher.fire"]
        for queue in (*names, "rmqtest.spread", "rmqtest.no_room", "rmqtest.locked"):
            channel.queue_delete(queue)
        for dag_id in (*OWN, LONG, "elsewhere"):
            for end in ("", ".unrouted", ".log"):
                channel.queue_delete(exchange_of(dag_id) + end)
                channel.exchange_delete(exchange_of(dag_id) + end)
        channel.exchange_delete("rmq_watcher.fire")


@pytest.fixture(scope="module")
def home(broker, broker_url, management_url, postgres_url, tmp_path_factory):
    """A Scheduler that has seen all DAG files; `rmq_bare` knows no management API."""
    name = f"rmqtest_exchange_{os.getpid()}"
    settings = AirflowSettings(
        executor="LocalExecutor",
        database_url=create_database(postgres_url, name),
        environment={"PYTHONPATH": str(PROJECT), "AIRFLOW_VAR_RMQ_WATCHER_RECONCILE_INTERVAL": str(CYCLE)},
    )
    with AirflowHome(tmp_path_factory.mktemp("airflow"), settings) as home:
        home.prepare(
            connections={
                "rmq_default": rmq_connection(broker_url, management_url=management_url),
                "rmq_bare": rmq_connection(broker_url),
            }
        )
        for number, text in enumerate(FILES.values()):
            (home.dags / f"dag{number}.py").write_text(text)
        home.start_scheduler()
        wait_until_listening(home, "routed", "moved", "unmirrored", "bare", LONG, "spread", "orphaned")
        yield home
    drop_database(postgres_url, name)


def rewrite(home, dag_id, text):
    (home.dags / f"dag{list(FILES).index(dag_id)}.py").write_text(text)


def row_of(home, dag_id):
    (row,) = [row for row in home.subscriptions() if row["dag_id"] == dag_id]
    return row


def error_of(home, dag_id):
    row = row_of(home, dag_id)
    return (row["last_error"] or "") if row["consumer_status"] == "error" else ""


def publish(vhost, exchange, key, body="x", **properties):
    with vhost.channel() as channel:
        channel.basic_publish(exchange, key, body, pika.BasicProperties(**properties))


def log_of(home):
    return (home.logs / "scheduler.log").read_text(errors="replace")


def wait_for_run(home, dag_id):
    return wait_until(lambda: home.dag_runs(dag_id), 30, f"a run of {dag_id}", show=home.subscriptions)


def test_every_object_is_declared_with_exactly_the_arguments_of_earlier_releases(home, management):
    exchange, queue = exchange_of("routed"), f"{SUB}routed"
    wait_until(lambda: len(management.bindings(queue)) == 2, 20, "the bindings")

    assert management.queue(queue) == (True, False, False, "classic", {"x-message-ttl": EIGHT_HOURS})
    assert management.bindings(queue) == {(exchange, "eu.*"), (exchange, "7.done")}
    assert management.exchange(exchange) == (
        True,
        False,
        False,
        "topic",
        {"alternate-exchange": f"{exchange}.unrouted"},
    )
    assert management.exchange(f"{exchange}.unrouted") == (True, False, False, "fanout", {})
    for end, source in ((".unrouted", (f"{exchange}.unrouted", f"{exchange}.unrouted")), (".log", (exchange, "#"))):
        net = exchange + end
        assert management.queue(net) == (True, False, False, "classic", {"x-message-ttl": EIGHT_HOURS})
        assert management.bindings(net) == {source}
    assert management.queue("rmq_watcher.fire") == (True, False, False, "classic", {})
    assert management.exchange("rmq_watcher.fire") == (True, False, False, "topic", {})
    assert management.bindings("rmq_watcher.fire") == {("rmq_watcher.fire", "#")}
    assert management.queue(f"{PENDING}spread") == (
        True,
        False,
        False,
        "classic",
        pending_arguments("spread"),
    )


def test_a_routed_message_starts_its_dag_with_the_key_it_came_with_and_leaves_a_copy(home, vhost):
    exchange = exchange_of("routed")
    publish(vhost, exchange, "eu.alert", "body", message_id="m1", headers={"kind": "x"})
    publish(vhost, exchange, "nobody.wants.this", "lost")

    (run,) = wait_for_run(home, "routed")

    assert run.run_id == f"rmq__{SUB}routed__m1"
    assert run.conf == {
        "source": "immediate",
        "body": "body",
        "headers": {"kind": "x"},
        "routing_key": "eu.alert",
        "queue": f"{SUB}routed",
        "subscription_id": row_of(home, "routed")["id"],
    }
    assert vhost.depth(f"{exchange}.log") == 2
    # The mirror takes everything, so with it nothing is left over for the alternate exchange.
    assert vhost.depth(f"{exchange}.unrouted") == 0


def test_without_a_mirror_there_is_no_log_queue_and_what_nobody_wants_is_kept(home, vhost, management):
    """L17."""
    exchange = exchange_of("unmirrored")
    publish(vhost, exchange, "nobody.wants.this", "lost")
    publish(vhost, exchange, "a", message_id="m1")

    wait_for_run(home, "unmirrored")

    assert not management.exists(f"{exchange}.log")
    assert vhost.depth(f"{exchange}.unrouted") == 1


def test_bindings_follow_the_declaration_and_none_of_an_earlier_exchange_stays(home, vhost, management):
    """L16."""
    queue, before, after = f"{SUB}moved", exchange_of("moved"), exchange_of("elsewhere")
    wait_until(lambda: management.bindings(queue) == {(before, "a"), (before, "b")}, 20, "the first bindings")
    with vhost.channel() as channel:  # somebody else's, which the diff does not touch
        channel.queue_bind(queue, "amq.headers", "", {"x-match": "all", "kind": "x"})

    rewrite(home, "moved", mode("moved", "b", "c"))
    wait_until(lambda: management.bindings(queue) == {(before, "b"), (before, "c")}, 40, "the changed keys")
    rewrite(home, "moved", declared_dag("moved", exchange=after, routing_keys=["c"]))
    wait_until(lambda: management.bindings(queue) == {(after, "c")}, 40, "the changed exchange")

    publish(vhost, before, "b", message_id="old")
    publish(vhost, after, "c", message_id="new")
    with vhost.channel() as channel:
        channel.basic_publish("amq.headers", "", "x", pika.BasicProperties(headers={"kind": "x"}, message_id="headers"))
    wait_until(lambda: len(home.dag_runs("moved")) == 2, 30, "the runs", show=home.subscriptions)
    assert {run.run_id.rpartition("__")[2] for run in home.dag_runs("moved")} == {"new", "headers"}


def test_without_management_url_every_cycle_says_so_and_the_queue_is_consumed(home, vhost, management):
    publish(vhost, "", f"{SUB}bare", message_id="m1")

    wait_for_run(home, "bare")

    def complaints():
        return [line for line in log_of(home).splitlines() if "ERROR" in line and "no management_url" in line]

    first = len(complaints())
    assert first
    wait_until(lambda: len(complaints()) >= first + 2, 30, "the complaints of two more cycles")
    assert all(word in complaints()[0] for word in ("rmq_bare", "DAG bare", f"{SUB}bare"))
    assert row_of(home, "bare")["consumer_status"] == "listening"
    assert management.bindings(f"{SUB}bare") == set()


def test_a_long_dag_id_gets_a_queue_name_that_fits(home, vhost, management):
    """R19."""
    queue = row_of(home, LONG)["queue_name"]
    assert len(queue.encode()) <= 250
    wait_until(lambda: management.bindings(queue), 20, "the binding")

    publish(vhost, exchange_of(LONG), "a", message_id="m1")

    (run,) = wait_for_run(home, LONG)
    assert run.conf["queue"] == queue
    vhost.delete(queue)


def test_objects_that_exist_otherwise_are_named_with_both_values_and_disturb_nobody(home, vhost, management):
    """B45."""
    for dag_id, words in {
        "other_type": ("x-queue-type", "it has the value 'quorum'"),
        "direct": ("type", "given was 'topic', it has 'direct'"),
        "no_room": ("x-max-length", "given was '1'", "it has '7'"),
    }.items():
        found = wait_until(lambda dag_id=dag_id: error_of(home, dag_id), 30, f"{dag_id} to read error")
        assert "PRECONDITION_FAILED" in found
        assert all(word in found for word in words), found

    # A sub queue is consumed as it is; without its pending queue a subscription with cooldown consumes nothing.
    wait_until(lambda: management.bindings(f"{SUB}other_type"), 20, "the binding of the quorum queue")
    publish(vhost, exchange_of("other_type"), "a", message_id="m1")
    wait_for_run(home, "other_type")
    publish(vhost, "", f"{SUB}direct", message_id="m1")
    wait_for_run(home, "direct")
    vhost.publish("rmqtest.no_room", "waits")
    assert vhost.consumers("rmqtest.no_room") == 0
    assert vhost.depth("rmqtest.no_room") == 1
    wait_until_listening(home, "routed", "moved", "unmirrored", "bare", "spread")

    vhost.delete(f"{PENDING}no_room")
    (run,) = wait_for_run(home, "no_room")
    assert run.conf["source"] == "cooldown"
    wait_until_listening(home, "no_room")


def test_cooldown_over_two_connections_is_an_error_and_the_smallest_has_the_fire_consumer(home, vhost):
    vhost.publish("rmqtest.spread", "x")

    (run,) = wait_for_run(home, "spread")

    assert run.conf["queue"] == "rmq_watcher.fire"
    (line,) = [line for line in log_of(home).splitlines() if "spread over several Airflow connections" in line][:1]
    assert "ERROR" in line
    assert "rmq_bare, rmq_default" in line
    assert "that of rmq_bare" in line
    assert vhost.consumers("rmq_watcher.fire") == 1


def test_an_exclusive_queue_of_another_connection_is_an_error_of_its_row_alone(home, broker, vhost):
    """B47."""
    found = wait_until(lambda: error_of(home, "locked"), 30, "the row to read error")
    assert "RESOURCE_LOCKED" in found
    assert "exclusive" in found
    wait_until_listening(home, "routed", "unmirrored", "bare")

    broker.close()
    wait_until(lambda: "does not exist" in (row_of(home, "locked")["last_error"] or "") or None, 30, "the queue to go")
    vhost.declare("rmqtest.locked")
    vhost.publish("rmqtest.locked", "x", message_ids=iter(["m1"]))
    wait_for_run(home, "locked")


def command(home, *words):
    done = subprocess.run(
        [sys.executable, "-m", "airflow_provider_rmq.watcher.cli", *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=home.env,
        cwd=home.path,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout, done.stderr


def test_an_orphan_is_named_once_listed_by_the_command_and_deleted_only_on_demand(home, vhost, management):
    queue, path = f"{SUB}orphaned", home.dags / f"dag{list(FILES).index('orphaned')}.py"
    wait_until(lambda: management.bindings(queue), 20, "the binding")
    path.unlink()

    def warnings():
        return [line for line in log_of(home).splitlines() if f"rabbitmqadmin delete queue name={queue}" in line]

    wait_until(warnings, 30, "the warning")
    wait_until(
        lambda: all(row["dag_id"] != "orphaned" for row in home.subscriptions()), 60, "the row to go", interval=0.5
    )
    assert len(warnings()) == 1
    assert "WARNING" in warnings()[0]
    wait_until(lambda: vhost.consumers(queue) == 0, 30, "the consumer to go after its row")
    publish(vhost, exchange_of("orphaned"), "a", "still wanted?")

    code, said, complaints = command(home, "orphans", "--json")
    assert code == 1  # rmq_bare cannot be asked
    found = json.loads(said)
    assert [item["queue"] for item in found["orphans"]] == [queue]
    assert list(found["not_asked"]) == ["rmq_bare"]
    assert "rmq_bare is left out" in complaints

    looking = ("orphans", "--conn-id", "rmq_default")
    code, said, complaints = command(home, *looking, "--delete", "--yes")
    assert code == 1
    assert f"{queue}: refused: it has 1 messages" in complaints
    code, said, _ = command(home, *looking, "--delete", "--force")
    assert (code, vhost.depth(queue)) == (0, 1)
    assert f"{queue}: kept" in said
    code, said, _ = command(home, *looking, "--delete", "--yes", "--force", "--json")
    assert (code, [item["outcome"] for item in json.loads(said)["orphans"]]) == (0, ["deleted"])
    assert not management.exists(queue)
    assert len(warnings()) == 1
