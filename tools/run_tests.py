"""Everything that must hold before a change goes in: `python -m tools.run_tests`, or `make test`.

Runs every check even after one has failed, so that one run tells all; the exit code is that of the first failure.
The tests of `integration/` run in two lanes side by side, each a run of its own with its own services, which come from
`private_services`; they wait more than they work, and one after the other they would take twice as long.

    python -m tools.run_tests --only integration -- -k restart      words after -- go to pytest
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from integration.lab.folder import fresh_folder
from integration.lab.installs import ensure_installed
from integration.lab.processes import LabError, adopt_orphans, end_all_children, family
from integration.lab.waiting import NotInTimeError
from tools.private_services import services

PROJECT = Path(__file__).resolve().parents[1]
PARTS = ("lint", "unit", "integration", "other-rabbitmq")
#: What each lane of the whole run asks this tool for; "others" has what "watcher" has not.
LANES = {"others": ("others", "other-rabbitmq"), "watcher": ("watcher",)}
LONG_FOLDERS = ("integration/watcher", "integration/faults")
#: The other series that is supported, and the tests whose answer differs most between the two.
OTHER_SERIES = "4.0"
TELLING = "test_foreign_headers or test_publish_confirmed or test_consume_operator or test_sensor_poke"
TOTAL_SECONDS = 25 * 60
SECONDS_PER_TEST = 300
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED, OUT_OF_TIME = 130, 124

PYTHON = [sys.executable, "-m"]
INTEGRATION = {
    "integration": ["integration"],
    "others": ["integration", *(f"--ignore={folder}" for folder in LONG_FOLDERS)],
    "watcher": list(LONG_FOLDERS),
}
LINT = {
    "ruff check": [*PYTHON, "ruff", "check", "."],
    "ruff format": [*PYTHON, "ruff", "format", "--check", "."],
    "mypy": [*PYTHON, "mypy"],
    "import contracts": [str(Path(sys.executable).parent / "lint-imports")],
    "sources": [*PYTHON, "tools.check_sources"],
}


@dataclass(frozen=True)
class Result:
    """How one check ended."""

    name: str
    code: int
    seconds: float


class Runner:
    """Runs one check after the other against a common deadline."""

    def __init__(self, seconds: float) -> None:
        self.results: list[Result] = []
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def run(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Run one check to its end, with its output as it comes."""
        print(f"\n== {name}", flush=True)
        begun = time.monotonic()
        env = {**os.environ, **(environment or {})}
        with subprocess.Popen(command, cwd=PROJECT, env=env, stdin=subprocess.DEVNULL) as process:
            try:
                code = process.wait(max(1, self._end - begun))
            except subprocess.TimeoutExpired:
                print(f"{name}: still running after {self.seconds / 60:.0f} minutes in all; ending it", flush=True)
                leave(process)
                code = OUT_OF_TIME
            except KeyboardInterrupt:
                leave(process)
                raise
        self.results.append(Result(name, code, time.monotonic() - begun))

    def run_lanes(self) -> None:
        """Run all of `integration/`, the lanes side by side, each line of output with its lane's name."""
        begun = time.monotonic()
        lanes: dict[str, subprocess.Popen[str]] = {}
        echoes = []
        try:
            for lane, parts in LANES.items():
                words = [word for part in parts for word in ("--only", part)]
                command = [*PYTHON, "tools.run_tests", "--seconds", f"{max(1, self._end - begun):.0f}", *words]
                lanes[lane] = subprocess.Popen(
                    command,
                    cwd=PROJECT,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
                echoes.append(threading.Thread(target=echo, args=(lane, lanes[lane].stdout), daemon=True))
                echoes[-1].start()
            for lane, process in lanes.items():
                code = process.wait()
                self.results.append(Result(f"lane {lane}", code, time.monotonic() - begun))
        except BaseException:
            for process in lanes.values():
                process.send_signal(signal.SIGINT)
            for process in lanes.values():
                process.wait(90)
            raise
        for thread in echoes:
            thread.join(10)

    def failed(self, name: str, reason: str) -> None:
        """Note a check that could not even start."""
        print(f"{name}: {reason}", flush=True)
        self.results.append(Result(name, 1, 0))

    def close(self) -> int:
        """Print how everything ended and return the first failure's exit code."""
        print()
        for result in self.results:
            print(f"{'ok' if result.code == 0 else f'exit {result.code}':<9} {result.name} ({result.seconds:.1f} s)")
        return next((result.code for result in self.results if result.code), 0)


def echo(lane: str, lines: IO[str] | None) -> None:
    """Print what a lane says."""
    for line in lines or ():
        print(f"{lane:>7} | {line}", end="", flush=True)


def leave(process: subprocess.Popen[bytes]) -> None:
    """Let pytest run its teardowns, which end what the tests started, and make sure of the end."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        for one in family(process.pid):
            one.send(signal.SIGKILL)
        process.kill()


def test_folder(part: str) -> AbstractContextManager[Path]:
    """Make the folder of one part's services and logs, which stays until the next run."""
    parent = PROJECT / ".test"
    parent.mkdir(exist_ok=True)
    return fresh_folder(parent / part, "make test")


def interrupt(number: int, _: FrameType | None) -> None:
    """Leave the running check; a second signal does not disturb the cleaning up."""
    for one in ENDING_SIGNALS:
        signal.signal(one, signal.SIG_IGN)
    print(f"\n{signal.Signals(number).name}: ending what was started", flush=True)
    raise KeyboardInterrupt


def arguments() -> argparse.Namespace:
    """Read the command line."""
    cli = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    cli.add_argument(
        "--only", choices=(*PARTS, *LANES), action="append", help="run this part; repeatable; default: all"
    )
    cli.add_argument(
        "--seconds", type=float, default=TOTAL_SECONDS, help="the time for everything; default: %(default)s"
    )
    cli.add_argument("pytest", nargs="*", help="words for pytest, after --")
    return cli.parse_args()


def run_parts(runner: Runner, parts: Sequence[str], words: Sequence[str]) -> None:
    """Run the parts in the order of their price; without parts everything."""
    if not parts or "lint" in parts:
        for name, command in LINT.items():
            runner.run(name, command)
    if not parts or "unit" in parts:
        runner.run("pytest tests", [*PYTHON, "pytest", "tests", *words])
    if not parts:
        runner.run_lanes()
    limits = ["--timeout", str(SECONDS_PER_TEST), "--durations", "12"]
    quick = [] if "-m" in words else ["-m", "not slow_fault"]
    for part, paths in INTEGRATION.items():
        if part in parts:
            run_integration(runner, part, [*paths, *limits, *quick, *words])
    if "other-rabbitmq" in parts:
        run_on_other_series(runner, [*limits, *(words or ["-k", TELLING])])


def run_integration(runner: Runner, part: str, words: Sequence[str]) -> None:
    """Run a part of `integration/` on services of its own."""
    name = f"pytest integration ({part})"
    try:
        with test_folder(part) as folder, services(folder, os.environ) as variables:
            runner.run(name, [*PYTHON, "pytest", *words], variables)
    except (LabError, NotInTimeError, OSError) as error:
        runner.failed(name, str(error))


def run_on_other_series(runner: Runner, words: Sequence[str]) -> None:
    """Run a part of `integration/surface` on the other series, where this machine has it or can get it."""
    name = f"pytest integration/surface on RabbitMQ {OTHER_SERIES}"
    given = {key: value for key, value in os.environ.items() if not key.startswith("RMQ_TEST_")}
    given["RMQ_TEST_SERIES"] = OTHER_SERIES
    try:
        ensure_installed(OTHER_SERIES)
    except (LabError, OSError) as error:
        print(f"\n== {name}\nskipped, this machine cannot have it: {error}", flush=True)
        return
    try:
        with test_folder("other-rabbitmq") as folder, services(folder, given) as variables:
            environment = {**variables, "RMQ_TEST_SERIES": OTHER_SERIES}
            runner.run(name, [*PYTHON, "pytest", "integration/surface", *words], environment)
    except (LabError, NotInTimeError, OSError) as error:
        runner.failed(name, str(error))


def main() -> int:
    """Run what was asked for."""
    args = arguments()
    adopt_orphans()
    for number in ENDING_SIGNALS:
        signal.signal(number, interrupt)
    runner = Runner(args.seconds)
    try:
        run_parts(runner, args.only or (PARTS if args.pytest else ()), args.pytest)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        end_all_children()
    return runner.close()


if __name__ == "__main__":
    sys.exit(main())
