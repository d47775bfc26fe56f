"""Scheduler → supervisor → worker: one of each, in no other process, and nothing left behind."""

import os
import re
import signal
import time
from pathlib import Path

import httpx
import pytest

from integration.lab.airflow import AirflowHome, AirflowSettings, Login, rmq_connection
from integration.lab.postgres import create_database, drop_database
from integration.lab.waiting import wait_until
from integration.watcher.dags import object_dag, taskflow_dag, wait_until_listening, watcher_processes

ADMIN = Login("admin", "secret of the tests")


@pytest.fixture(scope="module")
def queue(vhost):
    name = f"rmqtest.{os.getpid()}.tree.queue"
    vhost.declare(name)
    yield name
    vhost.delete(name)


@pytest.fixture(scope="module")
def home(tmp_path_factory, broker_url, postgres_url, queue):
    """An Airflow with a LocalExecutor, whose Scheduler each test starts itself."""
    name = f"rmqtest_{os.getpid()}_tree"
    path = tmp_path_factory.mktemp("tree")
    settings = AirflowSettings(executor="LocalExecutor", database_url=create_database(postgres_url, name))
    with AirflowHome(path / "airflow", settings) as airflow:
        airflow.prepare(connections={"rmq_default": rmq_connection(broker_url)}, admin=ADMIN)
        (airflow.dags / "orders.py").write_text(taskflow_dag("orders", queue))
        yield airflow
    drop_database(postgres_url, name)


@pytest.fixture
def scheduler(home):
    service = home.start_scheduler()
    wait_until_listening_anew(home, service.pid)
    yield service
    service.stop()


def wait_until_listening_anew(home, above):
    wait_until(lambda: watcher_processes(above)["worker"], 60, "the worker to be there")
    wait_until_listening(home, "orders")


def one_of_each(above):
    ours = watcher_processes(above)
    return {role: len(processes) for role, processes in ours.items()} == {"supervisor": 1, "worker": 1}


def threads(pid):
    return [(task / "comm").read_text().strip() for task in Path(f"/proc/{pid}/task").iterdir()]


def test_the_scheduler_holds_no_thread_of_ours(home, scheduler):
    """One thread in all: with LocalExecutor and PostgreSQL neither Airflow nor a driver makes another."""
    assert len(threads(scheduler.pid)) == 1


def test_the_supervisor_is_small_and_has_one_thread(home, scheduler):
    (supervisor,) = watcher_processes(scheduler.pid)["supervisor"]
    resident = int(re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{supervisor.pid}/status").read_text())[1])

    assert len(threads(supervisor.pid)) == 1
    assert resident < 20 * 1024


def test_twenty_tasks_of_a_local_executor_start_no_watcher_of_their_own(home, scheduler, vhost, queue):
    before = len(home.dag_runs("orders"))
    pids = {role: [p.pid for p in found] for role, found in watcher_processes(scheduler.pid).items()}
    seen = set()

    def all_done():
        seen.update((role, p.pid) for role, found in watcher_processes(scheduler.pid).items() for p in found)
        runs = home.dag_runs("orders")[before:]
        return len(runs) == 20 and all(run.state == "success" for run in runs)

    vhost.publish(queue, *["{}"] * 20, message_ids=iter(f"tasks{number}" for number in range(20)))
    wait_until(all_done, 240, "20 runs to succeed", interval=0.02)

    assert seen == {(role, pid) for role, found in pids.items() for pid in found}
    assert one_of_each(scheduler.pid)


def test_no_other_component_starts_a_watcher_and_the_page_shows_what_listens(home, scheduler, queue):
    webserver, triggerer = home.start_webserver(), home.start_triggerer()
    listed = home.cli("dags", "list")
    home.wait_for_webserver(webserver)
    wait_until(
        lambda: home.rows("SELECT 1 FROM job WHERE job_type = 'TriggererJob' AND state = 'running'"),
        120,
        f"the triggerer to run (log: {triggerer.log})",
    )

    page = page_as(ADMIN, home)

    assert "orders" in listed
    assert watcher_processes(webserver.pid) == watcher_processes(triggerer.pid) == {"supervisor": [], "worker": []}
    assert one_of_each(scheduler.pid)
    assert queue in page
    assert "listening" in page
    webserver.stop()
    triggerer.stop()


def page_as(login, home):
    address = f"http://127.0.0.1:{home.webserver_port}"
    with httpx.Client(base_url=address, follow_redirects=True, timeout=60) as client:
        form = client.get("/login/").text
        token = re.search(r'name="csrf_token"[^>]*value="([^"]+)"', form)[1]
        fields = {"username": login.username, "password": login.password, "csrf_token": token}
        client.post("/login/", data=fields).raise_for_status()
        return client.get("/rmq-watcher/subscriptions").raise_for_status().text


def test_a_visitor_who_is_not_logged_in_sees_no_subscription(home, scheduler, queue):
    webserver = home.start_webserver()
    home.wait_for_webserver(webserver)

    answer = httpx.get(f"http://127.0.0.1:{home.webserver_port}/rmq-watcher/subscriptions", timeout=60)

    assert answer.status_code in (302, 403)
    assert queue not in answer.text
    webserver.stop()


def test_a_killed_worker_is_replaced_and_the_next_message_starts_its_run(home, scheduler, vhost, queue):
    before = len(home.dag_runs("orders"))
    (killed,) = watcher_processes(scheduler.pid)["worker"]

    killed.send(signal.SIGKILL)
    begun = time.monotonic()
    vhost.publish(queue, "{}", message_ids=iter([f"killed{killed.pid}"]))
    wait_until(lambda: len(home.dag_runs("orders")) > before, 60, "the run of the message", show=home.subscriptions)

    print(f"worker killed to run created: {time.monotonic() - begun:.1f} s")
    (worker,) = watcher_processes(scheduler.pid)["worker"]
    assert worker.pid != killed.pid
    assert len(watcher_processes(scheduler.pid)["supervisor"]) == 1
    assert f"RMQ Watcher process {killed.pid} died with signal SIGKILL" in scheduler.log.read_text()


def test_a_killed_supervisor_takes_its_worker_along(home, scheduler):
    ours = watcher_processes(scheduler.pid)

    ours["supervisor"][0].send(signal.SIGKILL)

    assert ours["worker"][0].gone(30)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_of_ours_outlives_the_scheduler(home, number):
    service = home.start_scheduler()
    wait_until_listening_anew(home, service.pid)
    ours = [process for found in watcher_processes(service.pid).values() for process in found]

    service.send(number)

    assert len(ours) == 2
    assert all(process.gone(60) for process in ours)
    service.stop()


def test_a_stop_while_the_worker_is_still_importing_airflow_ends_both_at_once(home):
    service = home.start_scheduler()
    wait_until(lambda: watcher_processes(service.pid)["worker"], 60, "the worker to be there", interval=0.01)
    ours = [process for found in watcher_processes(service.pid).values() for process in found]

    ours[0].send(signal.SIGTERM)

    assert all(process.gone(30) for process in ours)
    service.stop()


def test_an_object_dag_file_added_later_is_found_by_the_next_scan(home, scheduler, vhost):
    """The interval between two cycles is an Airflow Variable, read at the start of each."""
    late = vhost.declare(f"rmqtest.{os.getpid()}.late.queue")
    home.cli("variables", "set", "rmq_watcher_reconcile_interval", "1")
    scheduler.stop()
    service = home.start_scheduler()
    wait_until_listening_anew(home, service.pid)

    (home.dags / "late.py").write_text(object_dag("late", late))
    wait_until_listening(home, "late")
    (home.dags / "late.py").unlink()
    wait_until(lambda: all(row["dag_id"] != "late" for row in home.subscriptions()), 60, "the row to go")

    assert "missing from the DAG files, miss 2" in service.log.read_text()
    service.stop()
    vhost.delete(late)
