"""The supervisor as a process: starts its worker again, leaves with its parent, is held up by nothing."""

import os
import signal
import subprocess
import sys

import pytest
from programs import SUPERVISOR, is_alive

from airflow_provider_rmq.watcher.process.child import LAST_END, RESTARTS

#: The supervisor waits for signals that it blocks, and what it starts inherits that.
TELL = (
    "import os, signal, sys, time; signal.pthread_sigmask(signal.SIG_UNBLOCK, {2, 15})\n"
    "print('worker', os.getpid(), flush=True)\n"
)
OBEDIENT = TELL + "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\ntime.sleep(600)"
DEAF = TELL + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"
#: Needs a second to leave.
SLOW = (
    TELL
    + "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), print('left by itself', flush=True), sys.exit(0)))\n"
    + "print('ready', flush=True)\ntime.sleep(600)"
)
QUICK_PAUSES = """
    from airflow_provider_rmq.messages.backoff import Backoff
    plain = supervisor.Supervisor
    supervisor.Supervisor = lambda waiter: plain(waiter, policy=supervisor.RestartPolicy(Backoff(0.05, 0.05)))
"""
#: As on macOS: no parent-death signal, nothing to wait for signals with.
POLLING = """
    del signal.sigtimedwait
    supervisor.limit_life_after_parent = lambda: "prctl(PR_SET_PDEATHSIG) failed: refused"
"""


def worker_of(program, number=1):
    return program.wait_for(lambda: program.pids("worker")[number - 1 : number], f"worker {number}")[0]


def test_a_worker_that_dies_is_started_again_and_told_how_often_and_why(start):
    told = f"os.environ['{RESTARTS}'], '/', os.environ['{LAST_END}']"
    program = start(
        SUPERVISOR,
        QUICK_PAUSES,
        environment={"WORKER": OBEDIENT.replace("os.getpid()", f"os.getpid(), {told}", 1)},
    )
    first = worker_of(program)

    os.kill(first, signal.SIGKILL)
    os.kill(worker_of(program, 2), signal.SIGSEGV)
    worker_of(program, 3)

    heard = [line.split(maxsplit=2)[2] for line in program.said()]
    assert heard == ["0 / ", "1 / signal SIGKILL", "2 / signal SIGSEGV"]
    assert f"ERROR - RMQ Watcher process {first} died with signal SIGKILL after" in program.errors()
    assert "starting it again in 0.05 s" in program.errors()


@pytest.mark.parametrize(
    ("code", "line"), [(2, "was started wrongly (code 2); it is not started again"), (0, "leaves too")]
)
def test_a_worker_that_left_with_these_codes_is_not_started_again(start, code, line):
    program = start(SUPERVISOR, environment={"WORKER": f"{TELL}sys.exit({code})"})

    assert program.code() == code
    assert len(program.pids("worker")) == 1
    assert line in program.errors()


def test_a_system_that_has_no_room_for_a_worker_is_asked_again(start):
    failing = """
    calls = []
    def failing(role, **given):
        calls.append(1)
        if len(calls) < 3:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return start(role, **given)
    supervisor.start_child = failing
    """
    program = start(SUPERVISOR, QUICK_PAUSES + failing, environment={"WORKER": OBEDIENT})

    worker_of(program)

    assert program.errors().count("RMQ Watcher process could not be started: [Errno 11]") == 2


@pytest.mark.parametrize("patches", ["", POLLING], ids=["Linux", "polling"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_passed_on_and_both_leave(start, number, patches):
    program = start(SUPERVISOR, patches, environment={"WORKER": OBEDIENT})
    worker = worker_of(program)

    program.process.send_signal(number)

    assert program.code() == 0
    assert not is_alive(worker)


def test_a_deaf_worker_is_killed_while_the_scheduler_waits(start):
    program = start(SUPERVISOR, "supervisor.TERM_WAIT = 0.2", environment={"WORKER": DEAF})
    worker = worker_of(program)

    program.process.terminate()

    assert program.code() == 0
    assert not is_alive(worker)
    assert "did not stop in time and was killed" in program.errors()


def kill_from_elsewhere(pid):
    subprocess.run([sys.executable, "-c", f"import os; os.kill({pid}, 15)"], check=True)


def test_a_stop_from_an_init_process_leaves_the_worker_the_time_it_needs(start):
    """The init of a container signals all at once; the Scheduler asks later, when it waits."""
    program = start(SUPERVISOR, "supervisor.TERM_WAIT = 0.1", environment={"WORKER": SLOW})
    program.wait_for_line("ready")

    kill_from_elsewhere(program.process.pid)

    assert program.code() == 0
    assert "left by itself" in program.said()


def test_a_later_request_of_the_scheduler_shortens_that_time(start):
    program = start(SUPERVISOR, "supervisor.TERM_WAIT = 0.1", environment={"WORKER": DEAF})
    worker_of(program)

    kill_from_elsewhere(program.process.pid)
    program.process.terminate()

    assert program.code() == 0
    assert "was killed" in program.errors()


@pytest.mark.parametrize("patches", ["", POLLING], ids=["Linux", "polling"])
def test_the_parents_death_ends_supervisor_and_worker(start, patches):
    tell = "print('self', os.getpid(), flush=True)\n"
    program = start(
        SUPERVISOR, tell + patches.replace("\n    ", "\n"), below_a_parent=True, environment={"WORKER": OBEDIENT}
    )
    worker = worker_of(program)
    (supervisor,) = program.pids("self")

    program.process.kill()

    program.wait_for(lambda: not is_alive(worker) and not is_alive(supervisor), "both to end")
    assert f"the scheduler process {program.process.pid} has exited (parent is now" in program.errors()
    if patches:
        assert "WARNING - prctl(PR_SET_PDEATHSIG) failed: refused" in program.errors()


def test_signals_meant_for_the_scheduler_are_ignored_and_so_by_what_is_started(start):
    ignored = [signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2]
    check = "print('ignored', [signal.getsignal(n) is signal.SIG_IGN for n in (1, 3, 10, 12)], flush=True)\n"
    program = start(SUPERVISOR, environment={"WORKER": TELL + check + "time.sleep(600)"})
    worker = worker_of(program)

    program.wait_for_line("ignored [True, True, True, True]")
    for number in ignored:
        program.process.send_signal(number)
    os.kill(worker, signal.SIGKILL)  # that it is noticed proves that the supervisor still works
    worker_of(program, 2)


def test_a_stderr_that_nobody_reads_does_not_hold_it_up(start):
    """A pipe that is full: a write would never return."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    program = start(SUPERVISOR, QUICK_PAUSES, environment={"WORKER": OBEDIENT}, stderr=writer)

    os.kill(worker_of(program), signal.SIGKILL)
    os.kill(worker_of(program, 2), signal.SIGKILL)
    worker_of(program, 3)
    program.process.terminate()

    assert program.code() == 0
    os.close(reader)
    os.close(writer)


def test_it_has_one_thread_and_imports_nothing_but_the_standard_library(start):
    look = """
        plain_pause = supervisor.Supervisor._pause
        def pause(self, seconds):
            import threading
            foreign = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
            foreign = {name for name in foreign if not name.startswith(("_", "sitecustomize", "usercustomize"))}
            print("threads", threading.active_count(), "foreign", sorted(foreign), flush=True)
            return plain_pause(self, seconds)
        supervisor.Supervisor._pause = pause
    """
    program = start(SUPERVISOR, look, environment={"WORKER": f"{TELL}sys.exit(1)"})

    (line, *_) = program.wait_for_line("threads")

    assert line == "threads 1 foreign ['airflow_provider_rmq']"
