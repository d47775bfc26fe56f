"""Runs our processes without an Airflow: the real supervisor or worker, with what it would start or load replaced.

The test is the parent, unless it asks for one that can be killed.
"""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

PATIENCE = 30

#: The real supervisor; PATCHES may change it, WORKER is the program of the worker.
SUPERVISOR = """
import os, signal, subprocess, sys
from airflow_provider_rmq.watcher.process import child, signals, supervisor
def start(role, *, extra_environment):
    return subprocess.Popen([sys.executable, "-c", os.environ["WORKER"]], env={{**os.environ, **extra_environment}})
supervisor.start_child = start
{patches}
sys.exit(supervisor.run({parent}))
"""

#: The real worker with `prepare` in place of loading Airflow and `loop` in place of the watcher's loop.
WORKER = """
import asyncio, logging, os, signal, sys, threading, time, types
from airflow_provider_rmq.watcher.process import signals, worker
logging.basicConfig(level="INFO", stream=sys.stderr, format="%(levelname)s %(message)s")
def prepare(): pass
async def loop(stop):
    await stop.wait()
def say(text): os.write(1, (text + chr(10)).encode())
{patches}
worker._prepare_airflow = lambda: (say("preparing"), prepare())
async def run(stop):
    say("looping")
    await loop(stop)
consumer = types.ModuleType("consumer")
consumer.build_watcher_loop = lambda start, orphaned: types.SimpleNamespace(run=run)
sys.modules["airflow_provider_rmq.watcher.consumer"] = consumer
restarts = types.ModuleType("restarts")
restarts.WorkerStart = lambda **given: given
sys.modules["airflow_provider_rmq.watcher.rows.restarts"] = restarts
metrics = types.ModuleType("metrics")
metrics.incr = lambda name: say("counted " + name)
sys.modules["airflow_provider_rmq.utils.metrics"] = metrics
sys.exit(worker.run({parent}))
"""

#: A parent that can be killed: starts its argument, tells the PID, and waits.
PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]])
time.sleep(600)
"""


class Program:
    """A process of ours under observation; ended with the test by its fixture."""

    def __init__(self, template, folder, patches="", *, below_a_parent=False, environment=None, stderr=None):
        program = template.format(
            patches=textwrap.dedent(patches), parent="os.getppid()" if below_a_parent else str(os.getpid())
        )
        words = ["-c", PARENT, program] if below_a_parent else ["-c", program]
        self.out, self.err = folder / "out", folder / "err"
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(environment or {})}
        with self.out.open("ab") as out, self.err.open("ab") as err:
            self.process = subprocess.Popen(
                [sys.executable, *words], env=self.environment, stdout=out, stderr=stderr or err
            )

    def said(self):
        return self.out.read_text().splitlines()

    def errors(self):
        return self.err.read_text()

    def wait_for(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not (seen := condition()):
            assert time.monotonic() < end, f"{what}; said {self.said()}; errors {self.errors()}"
            time.sleep(0.01)
        return seen

    def wait_for_line(self, text):
        return self.wait_for(lambda: [line for line in self.said() if text in line], text)

    def wait_for_error(self, text):
        return self.wait_for(lambda: text in self.errors(), text)

    def pids(self, word):
        """The numbers told after a word, each on a line of its own."""
        return [int(line.split()[1]) for line in self.said() if line.startswith(f"{word} ")]

    def code(self):
        return self.process.wait(PATIENCE)


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def end(pid):
    if is_alive(pid):
        os.kill(pid, signal.SIGKILL)
