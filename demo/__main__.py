"""The demo from beginning to end: `python -m demo`, or `make demo`.

Ctrl-C and SIGTERM end it at any moment, and with it everything it started.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import signal
import sys
import time
from datetime import datetime
from pathlib import Path
from types import FrameType

from demo import airflow_side, brokers, orders
from demo.console import DemoError, say, step
from demo.settings import Settings
from integration.lab.airflow import AirflowHome, DagRunRow, Login
from integration.lab.folder import fresh_folder
from integration.lab.processes import LabError, adopt_orphans, end_all_children
from integration.lab.waiting import NotInTimeError

PROJECT = Path(__file__).resolve().parents[1]
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130


def main() -> int:
    """Run the demo and return its exit code."""
    # Whatever loses its parent becomes ours instead of init's, so that the end finds it.
    adopt_orphans()
    for number in ENDING_SIGNALS:
        signal.signal(number, interrupt)
    try:
        settings = Settings.read(os.environ)
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(end_everything)
            run(settings, cleanup)
    except KeyboardInterrupt:
        return 0 if "up" in PROGRESS else INTERRUPTED
    except (DemoError, LabError, NotInTimeError) as error:
        say("failed", str(error))
        return 1
    except OSError as error:
        say("failed", "no space left on the disk" if error.errno == errno.ENOSPC else str(error))
        return 1
    return 0


#: Names of what the demo has reached, for the exit code: Ctrl-C is the way to end one that stays up.
PROGRESS: set[str] = set()


def interrupt(number: int, _: FrameType | None) -> None:
    """Leave whatever is being waited for; a second signal does not disturb the cleaning up."""
    for one in ENDING_SIGNALS:
        signal.signal(one, signal.SIG_IGN)
    say("demo", f"{signal.Signals(number).name}: ending what was started ...")
    raise KeyboardInterrupt


def end_everything() -> None:
    """End what is still there after the orderly way: a step may have failed halfway."""
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    end_all_children()


def run(settings: Settings, cleanup: contextlib.ExitStack) -> None:
    """Carry out every step; what must be undone goes on the stack as it is done."""
    port = airflow_side.choose_port(settings.port)
    place = cleanup.enter_context(fresh_folder(PROJECT / ".demo", "make demo"))
    broker = brokers.find(settings, place)
    cleanup.callback(broker.close)
    ours = orders.declare_queue(broker)
    if ours and not broker.private:
        cleanup.callback(orders.delete_queue, broker)
    say("queue", f"{orders.QUEUE} {'declared' if ours else 'was there already'} at {broker.place}")

    login = Login("admin", secrets.token_hex(6))
    home = airflow_side.make_home(place, port)
    cleanup.callback(home.stop)
    running = airflow_side.start(home, broker, login)

    order = orders.publish_order(broker)
    say("order", f"published with message_id {order.message_id}, confirmed by the broker")
    tell(order, airflow_side.wait_for_run(home, running, order), home, login)
    if not settings.once:
        PROGRESS.add("up")
        say("demo", "stays up; Ctrl-C ends it and everything it started")
        stay_up(running)
    with step("demo", "ending what was started", "ended"):
        home.stop()
        broker.close()


def stay_up(running: airflow_side.Running) -> None:
    """Wait for a signal; an Airflow that dies meanwhile is an error."""
    while True:
        running.require_alive()
        time.sleep(1)


def tell(order: orders.Order, done: DagRunRow, home: AirflowHome, login: Login) -> None:
    """Print the timeline: moments of this clock and of the run's row, which Airflow wrote on the same machine."""
    created = since(order, done.queued_at)
    finished = since(order, done.end_date)
    print(
        f"""
  published      {order.published_at:%H:%M:%S.%f} UTC
  run created    after {created * 1000:.0f} ms (dag_run.queued_at)
  run succeeded  after {finished:.1f} s (dag_run.end_date)
  run            {done.run_id}
  conf           {json.dumps(done.conf, indent=2, ensure_ascii=False).replace(chr(10), chr(10) + " " * 17)}
  page           http://localhost:{home.webserver_port}/rmq-watcher/subscriptions
  login          {login.username} / {login.password}
""",
        flush=True,
    )


def since(order: orders.Order, moment: datetime | None) -> float:
    """Return the seconds from publishing to a moment of the run."""
    if moment is None:
        raise DemoError("the DAG run has no such moment")
    return (moment - order.published_at).total_seconds()


if __name__ == "__main__":
    sys.exit(main())
