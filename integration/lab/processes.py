"""Commands and processes of the lab: run one to its end, recognise one again, end one for certain.

A process is known by pid and start time, so that a reused pid is never signalled. `broker_lab` keeps such
records in a file between two calls of its command line; `Service` is for processes that live as long as we do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class LabError(Exception):
    """A failure to tell a person, without a traceback."""


def run(
    command: Sequence[object],
    *,
    check: bool = True,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return its output, standard error included.

    Raises:
        LabError: with the end of the output, unless *check* is off.
    """
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        check=False,
        env=env,
        cwd=cwd,
        timeout=timeout,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if check and done.returncode:
        raise LabError(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout.strip()[-3000:]}")
    return done


def tail(path: Path, lines: int = 12) -> str:
    """Return the last lines of a log, or a note that there is none."""
    if not path.exists():
        return f"({path} does not exist)"
    return "\n".join(line[:300] for line in path.read_text(errors="replace").splitlines()[-lines:])


def start_ticks(pid: int) -> int | None:
    """Return the start time of a live process, None for a dead one or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


@dataclass(frozen=True)
class ProcessId:
    """A process that stays recognisable after its end."""

    pid: int
    ticks: int | None

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """Remember the process that has this pid now."""
        return cls(pid, start_ticks(pid))

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        return self.ticks is not None and start_ticks(self.pid) == self.ticks

    def send(self, number: int) -> bool:
        """Signal the process; False when it is gone."""
        if not self.alive:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
        return True

    def gone(self, seconds: float) -> bool:
        """Wait for its end; False when it outlives the time."""
        end = time.monotonic() + seconds
        while self.alive:
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def end(self, seconds: float) -> None:
        """SIGTERM, and SIGKILL when that does not help in time."""
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        if not self.gone(seconds):
            self.send(signal.SIGKILL)
            self.gone(5)


def family(pid: int) -> list[ProcessId]:
    """Return what a process started that still lives: its descendants, and the rest of the session it led."""
    children: dict[int, list[int]] = {}
    orphans: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            _, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            children.setdefault(int(parent), []).append(int(entry.name))
            if int(session) == pid != int(entry.name):
                orphans.append(int(entry.name))
    found = {pid}
    waiting = [pid, *orphans]
    while waiting:
        one = waiting.pop(0)
        found.add(one)
        waiting += [child for child in children.get(one, []) if child not in found]
    return [process for process in map(ProcessId.of, sorted(found - {pid})) if process.alive]


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies, where the kernel offers that (Linux)."""
    set_child_subreaper = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def end_all_children(seconds: float = 10) -> None:
    """End every descendant of this process that still lives; the last step of a program that leaves nothing behind."""
    for process in family(os.getpid()):
        process.end(seconds)
    with contextlib.suppress(ChildProcessError):  # adopted ones have nobody else to ask for their exit code
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


class Service:
    """One process of ours in a session of its own, with its output in a log file."""

    def __init__(
        self,
        name: str,
        command: Sequence[object],
        *,
        log: Path,
        env: Mapping[str, str],
        cwd: Path,
        user: str | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        self.name = name
        self.log = log
        self._stop_signal = stop_signal
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(word) for word in command],
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C goes to every process of the terminal's group; ours are ended in order, by us.
                start_new_session=True,
                user=user,
                extra_groups=[] if user else None,
            )

    @property
    def pid(self) -> int:
        """The process started, not one of its children."""
        return int(self._process.pid)

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def require_alive(self) -> None:
        """Raise with the end of the log when the process has ended.

        Raises:
            LabError: names the exit code and the log.
        """
        if not self.alive:
            code = self._process.returncode
            raise LabError(f"{self.name} ended with exit code {code}; log: {self.log}\n{tail(self.log)}")

    def send(self, number: int) -> None:
        """Signal the process itself, if it still runs."""
        if self.alive:
            self._process.send_signal(number)

    def stop(self, seconds: float = 20) -> None:
        """End the process and everything it started; SIGKILL for what outlives *seconds*."""
        started = family(self.pid)
        self.send(self._stop_signal)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            started += family(self.pid)
            self._process.kill()
            self._process.wait()
        for process in started:
            process.end(3)

    def kill(self) -> None:
        """Kill -9 the process itself and leave its children as they are."""
        self.send(signal.SIGKILL)
        self._process.wait()
