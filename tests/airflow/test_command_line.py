"""`airflow-rmq` on a real metadata database: rows listed, switched, and the watcher's last words."""

import json
import subprocess
import sys
from datetime import datetime, timezone

import pytest

from airflow_provider_rmq.watcher.cli.main import parser, run
from airflow_provider_rmq.watcher.models import RMQConnStatus, RMQSubscription, WatcherBase
from airflow_provider_rmq.watcher.rows.owned_queues import owned_queues


@pytest.fixture
def stored(session):
    session.add_all(
        [
            RMQSubscription(dag_id="a", queue_name="q1", source="dag_file", cooldown=60, group_key="a"),
            RMQSubscription(dag_id="a", queue_name="q2", source="dag_file", cooldown=60, enabled=False),
            RMQSubscription(
                dag_id="b",
                queue_name="rmq_watcher.sub.b",
                conn_id="other",
                source="ui",
                consumer_status="error",
                last_error="boom " * 100,
            ),
            RMQConnStatus(conn_id="known", consumer_count=2, last_reconcile_at=datetime(2026, 3, 1, 12)),
        ]
    )
    session.commit()
    return [row.id for row in session.query(RMQSubscription).order_by(RMQSubscription.id)]


def call(capsys, *words):
    capsys.readouterr()
    code = run(parser().parse_args(words))
    return code, capsys.readouterr()


def enabled(session):
    session.expire_all()
    return [row.enabled for row in session.query(RMQSubscription).order_by(RMQSubscription.id)]


def test_the_list_holds_every_row_and_its_json_every_value(capsys, stored):
    code, said = call(capsys, "subscriptions", "list")
    assert code == 0
    assert [line.split()[0] for line in said.out.splitlines()] == ["ID", *map(str, stored)]

    code, said = call(capsys, "subscriptions", "list", "--json")
    rows = json.loads(said.out)
    assert [row["id"] for row in rows] == stored
    assert rows[0] == {
        "id": stored[0],
        "dag_id": "a",
        "queue_name": "q1",
        "conn_id": "rmq_default",
        "source": "dag_file",
        "enabled": True,
        "consumer_status": "connecting",
        "last_error": None,
        "cooldown": 60,
        "ack_unmatched": False,
        "filter_data": {},
        "absent_cycles": 0,
    }
    assert rows[2]["last_error"] == "boom " * 100


def test_the_list_can_be_of_one_dag(capsys, stored):
    _, said = call(capsys, "subscriptions", "list", "--dag-id", "b", "--json")

    assert [row["id"] for row in json.loads(said.out)] == stored[2:]


def test_an_empty_list_says_so(capsys, session):
    assert call(capsys, "subscriptions", "list")[1].out == "There are no subscriptions.\n"
    assert json.loads(call(capsys, "subscriptions", "list", "--json")[1].out) == []


def test_a_subscription_is_disabled_and_enabled_again(capsys, session, stored):
    code, said = call(capsys, "subscriptions", "disable", str(stored[0]))
    assert (code, enabled(session)) == (0, [False, False, True])
    assert f"subscription {stored[0]} (q1 → a, rmq_default) is disabled\n" in said.out

    code, said = call(capsys, "subscriptions", "enable", "--dag-id", "a", "--json")
    assert (code, enabled(session)) == (0, [True, True, True])
    assert json.loads(said.out) == [{"id": number, "enabled": True, "changed": True} for number in stored[:2]]


def test_what_is_so_already_is_told_and_not_touched(capsys, session, stored):
    before = session.get(RMQSubscription, stored[1]).updated_at

    _, said = call(capsys, "subscriptions", "disable", str(stored[1]))

    session.expire_all()
    assert session.get(RMQSubscription, stored[1]).updated_at == before
    assert "is disabled already" in said.out


@pytest.mark.parametrize("words", [["99999"], ["--dag-id", "nobody"], []])
def test_what_no_row_has_changes_nothing(capsys, session, stored, words):
    code, said = (
        call(capsys, "subscriptions", "disable", str(stored[0]), *words)
        if words
        else call(capsys, "subscriptions", "disable")
    )

    assert (code, enabled(session), said.out) == (1, [True, False, True], "")
    assert said.err.startswith("airflow-rmq: ")


def test_the_status_shows_connections_and_what_does_not_listen(capsys, stored):
    code, said = call(capsys, "status")
    assert code == 0
    assert "known" in said.out
    assert "Subscriptions: 1 connecting, 1 disabled, 1 error" in said.out
    assert "…" in said.out

    found = json.loads(call(capsys, "status", "--json")[1].out)
    moment = datetime(2026, 3, 1, 12, tzinfo=timezone.utc).isoformat()
    assert found["connections"] == [
        {
            "conn_id": "known",
            "status": "unknown",
            "consumer_count": 2,
            "broker_consumer_count": None,
            "last_error": None,
            "last_reconcile_at": moment,
        }
    ]
    assert [row["id"] for row in found["subscriptions"]] == stored


def test_rows_own_their_queues_enabled_or_not_and_connections_are_known_longer(session, stored):
    owned = owned_queues(session)

    assert owned.pending == {"rmq_watcher.pending.a"}
    assert owned.sub == {"rmq_watcher.sub.b"}
    assert owned.conn_ids == {"rmq_default", "other", "known"}


def test_without_the_watchers_tables_the_command_makes_none(session):
    """In a process of its own, as a person runs it; also: stdout stays free of Airflow's log."""
    session.close()
    connection = session.connection()
    WatcherBase.metadata.drop_all(connection)
    session.commit()

    program = [sys.executable, "-m", "airflow_provider_rmq.watcher.cli", "status", "--json"]
    done = subprocess.run(program, check=False, capture_output=True, text=True, timeout=120)

    assert (done.returncode, done.stdout) == (1, "")
    assert "the watcher has not made its tables" in done.stderr
