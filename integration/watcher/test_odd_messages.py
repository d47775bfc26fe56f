"""Messages as other people's producers send them, each kind in a queue of its own on one connection."""

import json
from datetime import datetime, timezone
from decimal import Decimal

import httpx
import pytest

from integration.lab.airflow import PROJECT, AirflowHome, AirflowSettings, Login, rmq_connection
from integration.lab.postgres import create_database, drop_database
from integration.lab.waiting import wait_until
from integration.watcher.dags import object_dag, wait_until_listening

ADMIN = Login("admin", "secret of the tests")
ODD_IDS = ["order/42", "order_42", "a b", "ü", "a|b", "{uuid}", "a%2Fb", "abc\n", "x" * 255, "☃"]
DAGS = ("burst", "odd", "picky", "neighbour")


@pytest.fixture(scope="module")
def queues(vhost):
    names = {name: f"rmqtest.odd.{name}" for name in DAGS}
    for name in names.values():
        vhost.delete(name)
        vhost.declare(name)
    yield names
    for name in names.values():
        vhost.delete(name)


@pytest.fixture(scope="module")
def home(tmp_path_factory, broker_url, postgres_url, queues):
    """An Airflow whose Scheduler serves all tests of this file."""
    database = "rmqtest_odd_messages"
    drop_database(postgres_url, database)
    settings = AirflowSettings(
        executor="LocalExecutor",
        database_url=create_database(postgres_url, database),
        environment={
            "PYTHONPATH": str(PROJECT),
            "AIRFLOW__API__AUTH_BACKENDS": "airflow.api.auth.backend.basic_auth,airflow.api.auth.backend.session",
        },
    )
    with AirflowHome(tmp_path_factory.mktemp("odd") / "airflow", settings) as airflow:
        airflow.prepare(connections={"rmq_default": rmq_connection(broker_url)}, admin=ADMIN)
        for name in DAGS:
            text = object_dag(name, queues[name])
            if name == "picky":
                text = text.replace("schedule=None", "schedule=None, params={'order': Param(type='integer')}")
                text = f"from airflow.models.param import Param\n{text}"
            (airflow.dags / f"{name}.py").write_text(text)
        airflow.start_scheduler()
        wait_until_listening(airflow, *DAGS)
        yield airflow
    drop_database(postgres_url, database)


def run_ids(home, dag_id):
    return [row["run_id"] for row in home.rows("SELECT run_id FROM dag_run WHERE dag_id = :dag_id", dag_id=dag_id)]


def test_messages_of_one_second_start_a_run_each_with_and_without_ids(home, vhost, queues, management):
    """B23, R23: (dag_id, logical date) is unique, and a clash of dates is no duplicate."""
    vhost.publish(queues["burst"], *["{}"] * 50, message_ids=(f"m{number}" for number in range(50)))
    vhost.publish(queues["burst"], *["{}"] * 500)
    wait_until(lambda: management.acknowledged(queues["burst"]) == 550, 120, "all to be acknowledged")

    found = run_ids(home, "burst")
    assert len(found) == 550
    assert {f"rmq__{queues['burst']}__m{number}" for number in range(50)} <= set(found)


def test_odd_message_ids_start_a_run_each_and_their_redelivery_none(home, vhost, queues, management):
    """B25, R21."""
    for _ in range(2):
        vhost.publish(queues["odd"], *["{}"] * len(ODD_IDS), message_ids=iter(ODD_IDS))
    wait_until(lambda: management.acknowledged(queues["odd"]) == 2 * len(ODD_IDS), 60, "all to be acknowledged")

    found = run_ids(home, "odd")
    assert len(set(found)) == len(found) == len(ODD_IDS)


def test_header_values_that_json_does_not_know_leave_the_pages_of_their_dag_open(home, vhost, queues):
    """B29: T, x and D. Airflow 2 pickles a conf, and its pages and its REST API dump it."""
    headers = {
        "T": datetime(2026, 2, 25, 6, 13, 20, tzinfo=timezone.utc),
        "x": b"\x00\xff",
        "D": Decimal("3.14"),
    }
    vhost.publish(queues["neighbour"], "{}", message_ids=iter(["typed"]), headers=headers)
    (run,) = wait_until(lambda: home.dag_runs("neighbour"), 60, "the run")

    assert json.loads(json.dumps(run.conf, allow_nan=False))["headers"] == {
        "T": "2026-02-25T06:13:20+00:00",
        "x": {"base64": "AP8="},
        "D": "3.14",
    }
    home.wait_for_webserver(home.start_webserver())
    base = f"http://127.0.0.1:{home.webserver_port}"
    with httpx.Client(base_url=base, timeout=60, trust_env=False, follow_redirects=True) as browser:
        answer = browser.get("/api/v1/dags/neighbour/dagRuns", auth=(ADMIN.username, ADMIN.password))
        assert answer.status_code == 200
        assert answer.json()["dag_runs"][0]["conf"]["headers"]["D"] == "3.14"
        token = browser.get("/login/").text.split('name="csrf_token"')[1].split('value="')[1].split('"')[0]
        form = {"username": ADMIN.username, "password": ADMIN.password, "csrf_token": token}
        assert browser.post("/login/", data=form).status_code == 200
        for page in (
            "/object/grid_data?dag_id=neighbour",
            "/dags/neighbour/grid",
            "/dagrun/list/?_flt_3_dag_id=neighbour",
        ):
            assert browser.get(page).status_code == 200, page


def test_a_dag_that_refuses_its_message_says_which_param_and_holds_up_nobody(home, vhost, queues, management):
    """B27. That the twentieth refusal is the last is a unit test's part: it takes a quarter of an hour."""
    before = len(run_ids(home, "neighbour"))
    vhost.publish(queues["picky"], "{}", message_ids=iter(["bad"]))

    def names_the_param():
        (row,) = [row for row in home.subscriptions() if row["dag_id"] == "picky"]
        return row["consumer_status"] == "error" and "order" in row["last_error"] and row["last_error"]

    reason = wait_until(names_the_param, 60, "the row to name the param", show=home.subscriptions)
    vhost.publish(queues["neighbour"], *["{}"] * 10, message_ids=(f"good{number}" for number in range(10)))
    wait_until(lambda: len(run_ids(home, "neighbour")) == before + 10, 30, "ten runs of the neighbour")

    assert "DAG picky does not take the message as its conf" in reason
    assert run_ids(home, "picky") == []
    wait_until(lambda: management.messages(queues["picky"]) == 1, 30, "the broker to say that it is not acknowledged")
    assert management.acknowledged(queues["picky"]) == 0
    others = {row["consumer_status"] for row in home.subscriptions() if row["dag_id"] != "picky"}
    assert others == {"listening"}
