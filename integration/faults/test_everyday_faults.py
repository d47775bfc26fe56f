"""The faults that happen to everybody: nothing is lost, nothing doubles, and the rows tell the truth meanwhile.

The targets stand in the figures and are not asserted, because a busy machine is no finding; loss, doubles and rows are.
"""

import signal
import threading

import pytest

from integration.faults.burst import now
from integration.faults.site import HEARTBEAT, ORDERS
from integration.lab import faults
from integration.lab.broker_lab import AMQP_GREETING, answers
from integration.lab.waiting import wait_until

pytestmark = pytest.mark.fault


@pytest.mark.on_4_0_too
def test_every_connection_closed_by_the_broker(site):
    with site.burst() as burst:
        burst.wait_for_runs(10)
        begun = now()
        faults.close_connections(site.lab)
        seconds = burst.longest_silence(begun, runs=30)
    site.judge("every connection closed", burst, seconds, target=2)
    site.wait_until_listening(30)


@pytest.mark.on_4_0_too
def test_a_broker_stopped_and_started(site):
    with site.burst() as burst:
        burst.wait_for_runs(10)
        site.lab.stop()
        site.wait_until_not_listening(15)
        started = threading.Thread(target=site.lab.start)
        started.start()
        wait_until(lambda: answers("127.0.0.1", site.lab.node().amqp, AMQP_GREETING), 60, "the broker to answer")
        seconds = burst.seconds_until_next_run(now())
        started.join()
    site.judge("broker stopped and started", burst, seconds, target=10)
    site.wait_until_listening(30)


@pytest.mark.on_4_0_too
def test_a_queue_deleted_and_recreated(site):
    """B39."""
    with site.burst() as before:
        before.wait_for_runs(10)
    before.settle()
    site.vhost.delete(ORDERS)
    site.wait_for_row(saying="does not exist", timeout=15)

    site.declare(ORDERS)
    with site.burst() as burst:
        seconds = burst.seconds_until_next_run(now())
        burst.wait_for_runs(10)
    site.judge("queue deleted and recreated", burst, seconds, target=5)
    site.wait_until_listening(30)


def test_a_worker_killed(site):
    with site.burst() as burst:
        burst.wait_for_runs(10)
        killed = site.process("worker")
        killed.send(signal.SIGKILL)
        seconds = burst.seconds_until_next_run(now())
        burst.longest_silence(now())
    site.judge("worker killed", burst, seconds, target=10)
    site.wait_until_listening(30)
    assert site.process("worker").pid != killed.pid
    assert f"RMQ Watcher process {killed.pid} died with signal SIGKILL" in site.scheduler.log.read_text()


def test_a_link_black_holed_with_its_sockets_open_and_healed(site):
    with site.burst() as burst:
        burst.wait_for_runs(10)
        site.proxy.order("blackhole")
        begun = now()
        site.wait_until_not_listening(3 * HEARTBEAT + 5 + 15)
        noticed = (now() - begun).total_seconds()
        site.proxy.order("normal")
        seconds = burst.seconds_until_next_run(now())
    print(f"the black hole was noticed after {noticed:.1f} s")
    site.judge("link black-holed and healed", burst, seconds, target=3 * HEARTBEAT + 5)
    site.wait_until_listening(60)


@pytest.mark.parametrize("outage", [8, pytest.param(30, marks=pytest.mark.slow_fault)])
def test_a_database_stopped_and_started(site, outage):
    """The Scheduler is frozen meanwhile: Airflow's own ends when its database goes, and the watcher with it."""
    with site.burst() as burst:
        burst.wait_for_runs(10)
        site.scheduler.send(signal.SIGSTOP)
        site.postgres.stop()
        before = len(burst.confirmed)
        wait_until(
            lambda: len(burst.confirmed) >= before + outage * burst.rate, outage * 3 + 30, "the outage's messages"
        )
        site.postgres.start()
        seconds = burst.seconds_until_next_run(now())
    site.judge(f"database stopped for {outage} s", burst, seconds)
    site.scheduler.send(signal.SIGCONT)
    site.wait_until_listening(60)
