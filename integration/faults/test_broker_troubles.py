"""A broker that is killed, frozen, alarmed, or says no; a link that breaks again and again."""

import os
import threading

import pytest

from integration.faults.burst import now
from integration.faults.site import CONN_ID, COOLDOWN, COOLED, HEARTBEAT, ORDERS, dag_file
from integration.lab import faults
from integration.lab.broker_lab import AMQP_GREETING, answers
from integration.lab.waiting import wait_until

pytestmark = pytest.mark.slow_fault

#: Seconds of resets; FAULT_RESET_SECONDS=120 for the long version.
RESETTING = int(os.environ.get("FAULT_RESET_SECONDS", "30"))
EXCHANGE = "faults.topic"


@pytest.mark.on_4_0_too
def test_a_broker_killed_and_started(site):
    with site.burst() as burst:
        burst.wait_for_runs(10)
        site.lab.kill()
        site.wait_until_not_listening(15)
        started = threading.Thread(target=site.lab.start)
        started.start()
        wait_until(lambda: answers("127.0.0.1", site.lab.node().amqp, AMQP_GREETING), 60, "the broker to answer")
        seconds = burst.seconds_until_next_run(now())
        started.join()
    site.judge("broker killed -9 and started", burst, seconds, target=10)
    site.wait_until_listening(30)


def test_a_broker_frozen_for_longer_than_the_heartbeat(site):
    with site.burst() as burst:
        burst.wait_for_runs(10)
        site.lab.pause()
        site.wait_until_not_listening(3 * HEARTBEAT + 20)
        site.lab.resume()
        seconds = burst.seconds_until_next_run(now())
    site.judge("broker frozen and thawed", burst, seconds, target=3 * HEARTBEAT + 5)
    site.wait_until_listening(60)


def test_a_link_reset_every_five_seconds(site):
    with site.burst() as burst:
        burst.wait_for_runs(10)
        for _ in range(RESETTING // 5):
            site.proxy.order("reset")
            burst.wait_for_messages(5 * burst.rate)
        seconds = burst.longest_silence(burst.runs()[10].created)
    site.judge(f"link reset every 5 s for {RESETTING} s", burst, seconds)
    site.wait_until_listening(60)


def test_a_memory_alarm_during_cooldown_publishing_leaves_acknowledgements_moving(site):
    """Messages arrive by expiry during the alarm, because publishers are blocked: orders go on, markers wait.

    RabbitMQ 3.10 and 4.0 block a connection with the first message it publishes under an alarm, and still take that
    one: the first window opens, the marker of the second gets no answer.
    """
    begun = now()
    orders = [f"alarm-{os.getpid()}-{number}" for number in range(40)]
    cooled = [f"alarm-{os.getpid()}-cooled-{number}" for number in range(2)]
    site.hold_back(ORDERS, orders, 12)
    site.hold_back(COOLED, cooled[:1], 12)
    site.hold_back(COOLED, cooled[1:], 12 + 4 * COOLDOWN)
    faults.set_alarm(site.lab, "memory")
    wait_until(lambda: len(started_since(site, "orders", begun)) == len(orders), 60, "all runs", show=site.rows)
    site.wait_until_empty(ORDERS)
    wait_until(lambda: started_since(site, "cooled", begun), 30, "the run of the first window", show=site.rows)
    wait_until(lambda: site.messages(COOLED) == 1, 60, "the message of the second window", show=site.rows)
    assert len(started_since(site, "cooled", begun)) == 1

    faults.set_alarm(site.lab, "memory", raised=False)
    cleared = now()
    wait_until(
        lambda: len(started_since(site, "cooled", begun)) == 2, 90, "the run of the second window", show=site.rows
    )
    print(f"the window's run came {(now() - cleared).total_seconds():.1f} s after the alarm")
    site.wait_until_empty(COOLED)
    assert len(started_since(site, "cooled", begun)) == 2
    site.wait_until_listening(60)


def started_since(site, dag_id, moment):
    return [run for run in site.runs(dag_id) if run.created >= moment]


def test_a_memory_alarm_during_connect(site):
    faults.set_alarm(site.lab, "memory")
    site.replace_worker()
    with site.burst() as burst:
        wait_until(lambda: site.process("worker"), 30, "the worker")
        faults.set_alarm(site.lab, "memory", raised=False)
        seconds = burst.seconds_until_next_run(now())
        burst.longest_silence(now())
    site.judge("memory alarm during connect", burst, seconds)
    site.wait_until_listening(60)


def test_a_permission_revoked_and_returned(site):
    with site.burst() as burst:
        burst.wait_for_runs(10)
        site.grant(read="^$")
        faults.close_connections(site.lab)
        told = site.wait_for_row(saying="access|permission", timeout=30)
        site.grant()
        seconds = burst.seconds_until_next_run(now())
    print(f"without the permission the row said: {told}")
    assert ORDERS in told
    site.judge("permission revoked and returned", burst, seconds)
    site.wait_until_listening(60)


def test_a_password_changed(site):
    """The new password is read with the next attempt; nothing is started again."""
    worker = site.process("worker")
    try:
        with site.burst() as burst:
            burst.wait_for_runs(10)
            site.restore_account(password="another one")
            faults.close_connections(site.lab)
            told = site.wait_for_row(saying="password|access_refused", timeout=30)
            site.home.add_connection(CONN_ID, site.connection(password="another one"))
            seconds = burst.seconds_until_next_run(now())
    finally:
        site.home.add_connection(CONN_ID, site.connection())
    print(f"with the old password the row said: {told}")
    assert "another one" not in told
    site.judge("password changed", burst, seconds)
    assert site.process("worker").pid == worker.pid


def test_an_exchange_with_other_properties_in_the_way(site):
    with site.vhost.channel() as channel:
        channel.exchange_declare(EXCHANGE, "direct", durable=True)
    dag = site.home.dags / "placed.py"
    dag.write_text(dag_file("placed", exchange=EXCHANGE, routing_keys=["orders.*"]))
    queue = "rmq_watcher.sub.placed"
    try:
        with site.quick_cycles():
            told = site.wait_for_row(saying=EXCHANGE, timeout=60, dag_id="placed")
            assert "PRECONDITION_FAILED" in told
            with site.vhost.channel() as channel:
                channel.exchange_delete(EXCHANGE)
            deleted = now()
            # What is published before the binding is there goes to the exchange's own nets and starts nothing.
            wait_until(lambda: EXCHANGE in site.sources(queue), 60, "the binding", interval=0.1, show=site.rows)
            with site.burst(queue, "placed", exchange=EXCHANGE, routing_key="orders.new") as burst:
                seconds = burst.seconds_until_next_run(deleted)
                burst.longest_silence(now())
            site.judge("exchange with other properties in the way", burst, seconds)
            dag.unlink()
            wait_until(lambda: "placed" not in site.rows(), 60, "the row to go", show=site.rows)
    finally:
        dag.unlink(missing_ok=True)
        for name in (queue, f"{EXCHANGE}.unrouted", f"{EXCHANGE}.log"):
            site.vhost.delete(name)
