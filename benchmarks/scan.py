"""What the scan of a DAG folder costs, as ratios to what Python and the file system charge for the same files.

    python -m benchmarks.scan                      5,000 files of 300 lines, three repeats
    python -m benchmarks.scan --files 500 --json   a figure for each repeat

| ratio | of | to |
|---|---|---|
| first scan | a scan that knows nothing; `--declaring` of the files declare a subscription | reading, `ast.parse` |
| re-scan | a scan of the same, unchanged folder | `os.stat` of the same files |
| re-scan, ignoring | the same with an `.airflowignore`, where the walk is Airflow's own | `os.stat` of the same files |

Nothing is asserted; figures of different machines do not compare, ratios nearly do.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from airflow_provider_rmq import compat
from airflow_provider_rmq.watcher.dagfiles.file_reader import FileReader
from airflow_provider_rmq.watcher.dagfiles.scanner import DagFolderScanner

FILES_A_FOLDER = 100

HEAD = '''
"""Pipeline {number}."""
from datetime import datetime

from airflow.decorators import dag, task
{imported}

QUEUE = "orders.{number}"

{decorated}
@dag(dag_id="pipeline_{number}", schedule=None, start_date=datetime(2024, 1, 1), tags=["a", "b"])
def pipeline():
'''
TASK = """
    @task(retries={number}, queue="default")
    def step_{number}(value: int, *, factor: float = 1.5) -> dict[str, object]:
        rows = [row for row in load("table_{number}") if row["amount"] > value and row["state"] != "void"]
        total = sum(row["amount"] * factor for row in rows)
        if not rows:
            raise ValueError(f"no rows in table_{number} for {{value}}")
        return {{"rows": len(rows), "total": total, "mean": total / len(rows)}}
"""


def source(number: int, lines: int, *, declaring: bool) -> str:
    """A DAG file of about so many lines."""
    text = HEAD.format(
        number=number,
        imported="from airflow_provider_rmq.watcher.decorators import rmq_trigger" if declaring else "",
        decorated='@rmq_trigger(queue=QUEUE, filter_data={"filter_headers": {"kind": "new"}})' if declaring else "",
    )
    step = 0
    while text.count("\n") < lines - 2:
        text += TASK.format(number=step)
        step += 1
    return text + "\npipeline()\n"


def make_folder(folder: Path, files: int, lines: int, declaring: float) -> list[str]:
    """Write the files; returns their paths."""
    paths = []
    for number in range(files):
        directory = folder / f"team{number // FILES_A_FOLDER}"
        directory.mkdir(exist_ok=True)
        path = directory / f"pipeline_{number}.py"
        path.write_text(source(number, lines, declaring=number < files * declaring))
        paths.append(str(path))
    return paths


def seconds(work: Callable[[], object]) -> float:
    """How long it takes once."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def parse_all(paths: Iterable[str]) -> None:
    """What any reader of the files has to do at least."""
    for path in paths:
        ast.parse(Path(path).read_text(encoding="utf-8"))


def stat_all(paths: Iterable[str]) -> None:
    """What any look for changes has to do at least."""
    for path in paths:
        os.stat(path)  # noqa: PTH116 - the bare call is the measure


def scanner(folder: Path) -> DagFolderScanner:
    """A scanner that knows nothing yet."""
    return DagFolderScanner(lambda: folder, compat.unignored_files, FileReader(compat.may_hold_dag))


def measure(folder: Path, paths: list[str]) -> dict[str, float]:
    """One repeat; seconds."""
    fresh = scanner(folder)
    times = {"parse": seconds(lambda: parse_all(paths)), "first scan": seconds(fresh.read)}
    times["stat"] = min(seconds(lambda: stat_all(paths)) for _ in range(5))
    times["re-scan"] = min(seconds(fresh.read) for _ in range(5))
    (folder / ".airflowignore").write_text("nothing_like_this")
    times["re-scan, ignoring"] = min(seconds(fresh.read) for _ in range(5))
    (folder / ".airflowignore").unlink()
    return times


def ratios(times: dict[str, float]) -> dict[str, float]:
    """The figures that compare."""
    return {
        "first scan": times["first scan"] / times["parse"],
        "re-scan": times["re-scan"] / times["stat"],
        "re-scan, ignoring": times["re-scan, ignoring"] / times["stat"],
    }


def main() -> None:
    """Measure and print."""
    cli = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    cli.add_argument("--files", type=int, default=5000)
    cli.add_argument("--lines", type=int, default=300)
    cli.add_argument("--repeats", type=int, default=3)
    cli.add_argument("--declaring", type=float, default=1.0, help="share of files that declare; 1: the dearest case")
    cli.add_argument("--json", action="store_true")
    args = cli.parse_args()
    with tempfile.TemporaryDirectory() as name:
        paths = make_folder(Path(name), args.files, args.lines, args.declaring)
        repeats = [measure(Path(name), paths) for _ in range(args.repeats)]
    if args.json:
        print(json.dumps({"arguments": vars(args), "seconds": repeats, "ratios": [ratios(item) for item in repeats]}))
        return
    for what in ratios(repeats[0]):
        values = [ratios(item)[what] for item in repeats]
        each = statistics.median(item[what] for item in repeats) / args.files * 1e6
        spread = f"{min(values):.2f} to {max(values):.2f}"
        print(f"{what:<18} {statistics.median(values):5.2f} times ({spread}), {each:.0f} µs a file")


if __name__ == "__main__":
    main()
