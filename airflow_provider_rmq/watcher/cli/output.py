"""What the command prints: tables for people, JSON for programs, complaints on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def say(text: str) -> None:
    """A line on stdout."""
    sys.stdout.write(f"{text}\n")


def complain(text: str) -> None:
    """A line on stderr, so that it never mixes with JSON."""
    sys.stderr.write(f"airflow-rmq: {text}\n")


def say_json(value: Any) -> None:
    """One JSON document."""
    say(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=False))


def say_table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, nothing: str) -> None:
    """Columns as wide as their content; `nothing` in place of an empty table."""
    lines = [[_cell(value) for value in row] for row in rows]
    if not lines:
        say(nothing)
        return
    widths = [max(len(line[column]) for line in [list(headings), *lines]) for column in range(len(headings))]
    for line in [list(headings), *lines]:
        say("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(str(value).split()) or "-"
