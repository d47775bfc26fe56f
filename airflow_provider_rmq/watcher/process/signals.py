"""Signals and parent death for our two processes: blocked signals that are waited for, and a hard end. Linux, macOS.

Both processes wait in `StopWaiter.wait`: nothing of theirs runs inside a signal handler, so a plugin or a lock that a
handler would meet cannot matter.

Where Python itself may be stuck, the kernel acts: a process that has decided to leave, or whose parent has died, gets
SIGALRM a minute later, and the default action of SIGALRM ends it whatever its threads hold, the interpreter's lock
included.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from enum import Enum

#: Sent to the whole process group of the Scheduler by an init process; meant for the Scheduler, not for us.
IGNORED_SIGNALS = (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
#: What asks us to stop.
STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT})
#: Seconds between two looks at the parent.
PARENT_CHECK_INTERVAL = 1.0
#: Seconds between two looks at the pending signals where the system cannot wait for them (macOS).
PENDING_CHECK_INTERVAL = 0.1
#: `prctl` option of Linux: the signal a process gets when the thread that started it ends (linux/prctl.h).
PR_SET_PDEATHSIG = 1
#: Seconds after which the kernel ends a process that has decided to leave.
EXIT_DEADLINE = 60
#: The signal we ask for at the parent's death. Its handler is the C library's own `alarm`, which gets the signal's
#: number as its argument: the number is the seconds a process may outlive its parent. No Python runs for it.
PARENT_DEATH_SIGNAL = 58


class StopReason(Enum):
    """Why a wait ended."""

    SIGNAL = "signal"
    PARENT_GONE = "parent gone"
    CHILD = "child"


@dataclass(frozen=True, slots=True)
class Stop:
    """What ended a wait; for a signal its name and the process that sent it, 0 for the kernel, None for unknown."""

    reason: StopReason
    signal_name: str = ""
    sender: int | None = None


@dataclass(slots=True)
class StopWaiter:
    """Waits for a stop signal, for the parent's death and, where asked, for a child's end.

    Args:
        parent_pid: The process that has to be our parent.
        watch_child: Wake up for SIGCHLD too.
    """

    parent_pid: int
    watch_child: bool = False
    _waited: frozenset[signal.Signals] = field(init=False)

    def __post_init__(self) -> None:
        """Block what is waited for, in this thread and all that it starts; ignore what is not for us."""
        self._waited = STOP_SIGNALS | {signal.SIGCHLD} if self.watch_child else STOP_SIGNALS
        for number in IGNORED_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._waited)

    def wait(self, seconds: float = PARENT_CHECK_INTERVAL) -> Stop | None:
        """Wait at most `seconds`; None when nothing happened."""
        if self.parent_gone():
            return Stop(StopReason.PARENT_GONE)
        taken = _next_signal(self._waited, seconds)
        if self.parent_gone():
            return Stop(StopReason.PARENT_GONE)
        if taken is None:
            return None
        number, sender = taken
        if number == signal.SIGCHLD:
            return Stop(StopReason.CHILD)
        return Stop(StopReason.SIGNAL, number.name, sender)

    def reclaim(self) -> None:
        """Undo what a plugin did to our signals while it was imported; from the main thread.

        Its handlers for other signals stay, as they do in the Scheduler.
        """
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.pthread_sigmask(signal.SIG_BLOCK, self._waited)

    def parent_gone(self) -> bool:
        """Whether the parent has died: a process whose parent dies gets another."""
        return os.getppid() != self.parent_pid


def _next_signal(waited: frozenset[signal.Signals], seconds: float) -> tuple[signal.Signals, int | None] | None:
    """Take the next of the signals, with its sender where the system tells."""
    if hasattr(signal, "sigtimedwait"):
        info = signal.sigtimedwait(waited, seconds)
        return None if info is None else (signal.Signals(info.si_signo), info.si_pid)
    end = time.monotonic() + seconds  # macOS: look for a pending one, then take it
    while True:
        if pending := signal.sigpending() & waited:
            return signal.Signals(signal.sigwait(pending)), None
        if time.monotonic() >= end:
            return None
        time.sleep(PENDING_CHECK_INTERVAL)


def limit_life_after_parent() -> str | None:
    """Have the kernel set an alarm when our parent dies; the reason where that cannot be had, else None.

    The parent's death itself is noticed by `StopWaiter` a second later; this is for a process that cannot look.
    """
    if not sys.platform.startswith("linux"):
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.signal.argtypes, libc.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
        libc.signal(PARENT_DEATH_SIGNAL, ctypes.cast(libc.alarm, ctypes.c_void_p))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {PARENT_DEATH_SIGNAL, signal.SIGALRM})
        if libc.prctl(PR_SET_PDEATHSIG, PARENT_DEATH_SIGNAL, 0, 0, 0):
            return f"prctl(PR_SET_PDEATHSIG) failed: {os.strerror(ctypes.get_errno())}"
    except (OSError, AttributeError) as error:
        return f"cannot request the parent-death signal: {error}"
    return None


def exit_at_latest_in(seconds: int) -> None:
    """Have the kernel end this process after so many seconds, whatever its threads are stuck in.

    An end that is due sooner stays. Python sets handlers from the main thread only; called from another one, a handler
    that a plugin set stays.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    remaining = signal.alarm(seconds)
    if 0 < remaining < seconds:
        signal.alarm(remaining)


def end_of(returncode: int) -> str:
    """A return code in words: `code 1`, `signal SIGKILL`."""
    if returncode >= 0:
        return f"code {returncode}"
    try:
        return f"signal {signal.Signals(-returncode).name}"
    except ValueError:
        return f"signal {-returncode}"
