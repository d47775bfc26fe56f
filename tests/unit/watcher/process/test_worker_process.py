"""The worker as a process: whatever hangs, it ends when it should, and says why."""

import ctypes
import os
import signal
import sys

import pytest
from programs import WORKER, is_alive

needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's part is Linux's")
TELL = "\nsay('self ' + str(os.getpid()))\n"
#: Sleeps in C without giving up the interpreter's lock: no other thread runs meanwhile.
HOLD_THE_LOCK = "import ctypes; ctypes.PyDLL(None).sleep(600)"


def test_a_stop_ends_the_loop_and_the_process(start):
    program = start(WORKER, environment={"AIRFLOW_PROVIDER_RMQ_WATCHER_SCHEDULER_PID": "4711"})
    program.wait_for_line("looping")

    program.process.terminate()

    assert program.code() == 0
    assert f"INFO RMQ Watcher process {program.process.pid} started for the scheduler process 4711" in program.errors()
    assert "INFO RMQ Watcher process received SIGTERM — stopping the watcher" in program.errors()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_meant_for_the_scheduler_changes_nothing(start, number):
    program = start(WORKER)
    program.wait_for_line("looping")

    program.process.send_signal(number)
    program.process.terminate()

    assert program.code() == 0


def test_a_stop_while_a_plugin_hangs_on_import_ends_it_at_once(start):
    program = start(WORKER, "prepare = lambda: time.sleep(600)")
    program.wait_for_line("preparing")

    program.process.terminate()

    assert program.code() == 0
    assert (
        f"process {program.process.pid}: received SIGTERM while Airflow was being prepared — exiting"
        in program.errors()
    )


def test_the_parents_death_while_a_plugin_hangs_on_import_ends_it_at_once(start):
    program = start(WORKER, TELL + "prepare = lambda: time.sleep(600)", below_a_parent=True)
    program.wait_for_line("preparing")
    (worker,) = program.pids("self")

    program.process.kill()

    program.wait_for(lambda: not is_alive(worker), "the worker to end")
    assert f"process {program.process.pid} exited while Airflow was being prepared — exiting" in program.errors()


@needs_linux
@pytest.mark.parametrize("where", ["import", "loop"])
def test_the_kernel_ends_a_worker_that_holds_the_interpreters_lock_once_its_parent_is_dead(start, where):
    """Signal 1 in place of 58: the number is the seconds."""
    hang = f"say('stuck'); {HOLD_THE_LOCK}"
    patches = TELL + "signals.PARENT_DEATH_SIGNAL = 1\n"
    if where == "import":
        patches += f"def prepare(): {hang}"
    else:
        patches += f"async def loop(stop): {hang}"
    program = start(WORKER, patches, below_a_parent=True)
    program.wait_for_line("stuck")
    (worker,) = program.pids("self")

    program.process.kill()

    program.wait_for(lambda: not is_alive(worker), "the kernel to end it")


def test_a_loop_that_does_not_stop_is_left_behind(start):
    program = start(WORKER, "worker.LOOP_STOP_TIMEOUT = 0.1\nasync def loop(stop): time.sleep(600)")
    program.wait_for_line("looping")

    program.process.terminate()

    assert program.code() == 0
    assert "the loop is still running 0.1s after the stop — exiting without it" in program.errors()


def test_the_kernel_ends_a_way_out_that_blocks(start):
    """Also after a plugin took SIGALRM for itself while it was imported."""
    program = start(
        WORKER,
        """
        worker.EXIT_DEADLINE = 1
        def prepare():
            signal.signal(signal.SIGALRM, lambda *_: say("the plugin's handler"))
            signal.setitimer(signal.ITIMER_REAL, 600)
        async def loop(stop): time.sleep(600)
        """,
    )
    program.wait_for_line("looping")

    program.process.terminate()

    assert program.code() == -signal.SIGALRM
    assert "the plugin's handler" not in program.said()


def test_a_timer_that_a_plugin_left_armed_does_not_end_it(start):
    program = start(
        WORKER,
        """
        def prepare():
            signal.signal(signal.SIGALRM, lambda *_: None)
            signal.setitimer(signal.ITIMER_REAL, 0.5)
        plain = signals.StopWaiter.reclaim
        def reclaim(self):
            plain(self)
            say("left " + str(signal.getitimer(signal.ITIMER_REAL)[0]))
        signals.StopWaiter.reclaim = reclaim
        """,
    )

    program.wait_for_line("left 0.0")


def test_logging_that_does_not_shut_down_is_left_behind(start):
    program = start(
        WORKER,
        """
        worker.LOGGING_STOP_TIMEOUT = 0.1
        async def loop(stop):
            await stop.wait()
            logging.shutdown = lambda: time.sleep(600)
        """,
    )
    program.wait_for_line("looping")

    program.process.terminate()

    assert program.code() == 0
    assert "logging did not shut down within 0.1s — exiting without it" in program.errors()


@pytest.mark.parametrize("error", ["SystemExit(7)", "GeneratorExit('gone')"])
def test_a_loop_that_raises_out_of_its_thread_ends_the_process_with_1(start, error):
    program = start(WORKER, f"async def loop(stop): raise {error}")

    assert program.code() == 1
    assert "ERROR RMQ Watcher loop failed — exiting\nTraceback" in program.errors()


def test_a_crash_inside_the_loop_makes_a_new_loop(start):
    program = start(
        WORKER,
        """
        worker.LOOP_RESTART_PAUSE = 0.01
        async def loop(stop):
            if not os.path.exists(os.environ["MARK"]):
                open(os.environ["MARK"], "w").close()
                raise RuntimeError("once")
            say("again")
            await stop.wait()
        """,
        environment={"MARK": f"{os.environ['AIRFLOW_HOME']}/mark-{os.getpid()}"},
    )

    program.wait_for_line("again")
    program.process.terminate()

    assert program.code() == 0
    assert "RMQ Watcher loop failed, it is made anew in 0.01 s" in program.errors()


@pytest.mark.parametrize("error", ["RuntimeError('broken')", "SystemExit(0)"])
def test_a_process_that_cannot_be_set_up_ends_with_1(start, error):
    """A plugin that calls exit() on import would end the Scheduler; here it is a failure like another."""
    program = start(WORKER, f"def prepare(): raise {error}")

    assert program.code() == 1
    assert "ERROR RMQ Watcher process failed — exiting\nTraceback" in program.errors()


def test_the_supervisors_death_ends_it_with_a_line(start):
    program = start(
        WORKER, TELL, below_a_parent=True, environment={"AIRFLOW_PROVIDER_RMQ_WATCHER_SCHEDULER_PID": str(os.getpid())}
    )
    program.wait_for_line("looping")
    (worker,) = program.pids("self")

    program.process.kill()

    program.wait_for(lambda: not is_alive(worker), "the worker to end")
    line = f"ERROR RMQ Watcher process: the supervisor process {program.process.pid} has exited (parent is now"
    assert line in program.errors()


def test_the_schedulers_death_is_told_apart(start):
    program = start(
        WORKER, TELL, below_a_parent=True, environment={"AIRFLOW_PROVIDER_RMQ_WATCHER_SCHEDULER_PID": "999999999"}
    )
    program.wait_for_line("looping")
    (worker,) = program.pids("self")

    program.process.kill()

    program.wait_for(lambda: not is_alive(worker), "the worker to end")
    assert "the scheduler process 999999999 has exited (parent is now" in program.errors()


def test_a_loop_that_notices_the_death_first_ends_the_process_in_order(start):
    patches = (
        TELL
        + """
signals.StopWaiter.wait = lambda self, seconds=1.0: time.sleep(0.05)
plain = os._exit
os._exit = lambda code: (say(f"code {code}"), plain(code))
async def loop(stop):
    while worker._orphaned(waiters[0]) is None:
        await asyncio.sleep(0.05)
waiters = []
made = signals.StopWaiter.__post_init__
signals.StopWaiter.__post_init__ = lambda self: (made(self), waiters.append(self))
"""
    )
    program = start(WORKER, patches, below_a_parent=True)
    program.wait_for_line("looping")

    program.process.kill()

    program.wait_for_line("code 0")
    assert "RMQ Watcher loop failed" not in program.errors()


def test_a_restart_is_counted(start):
    program = start(
        WORKER,
        environment={
            "AIRFLOW_PROVIDER_RMQ_WATCHER_RESTARTS": "3",
            "AIRFLOW_PROVIDER_RMQ_WATCHER_LAST_END": "signal SIGKILL",
        },
    )

    program.wait_for_line("counted rmq_watcher.process_restarted")
    program.wait_for_error("is restart number 3, after signal SIGKILL")


def test_a_first_start_is_not_counted(start):
    program = start(WORKER)
    program.wait_for_line("looping")

    assert not [line for line in program.said() if "counted" in line]


@needs_linux
def test_the_deadline_that_is_due_sooner_stays():
    from airflow_provider_rmq.watcher.process.signals import exit_at_latest_in

    signal.alarm(20)
    try:
        exit_at_latest_in(60)
        assert 0 < signal.alarm(0) <= 20
    finally:
        signal.alarm(0)


@needs_linux
def test_a_kernel_that_refuses_the_death_signal_is_named(monkeypatch):
    from airflow_provider_rmq.watcher.process import signals

    class Library:
        """Refuses as a seccomp filter does."""

        def __init__(self, *_, **__):
            libc = ctypes.PyDLL(None)
            self.signal, self.alarm = libc.signal, libc.alarm
            self.prctl = lambda *_: ctypes.set_errno(1) or -1

    monkeypatch.setattr(signals.ctypes, "CDLL", Library)
    before = signal.getsignal(signal.SIGALRM)
    try:
        assert signals.limit_life_after_parent() == "prctl(PR_SET_PDEATHSIG) failed: Operation not permitted"
    finally:
        signal.signal(signals.PARENT_DEATH_SIGNAL, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, before)
