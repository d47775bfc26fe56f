"""What the demo says while it works: a line when a step begins and one when it is done."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class DemoError(Exception):
    """Why the demo cannot go on, in one sentence for the person who called it."""


def near(path: Path) -> str:
    """Return a path as seen from here, which is shorter."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def say(subject: str, text: str) -> None:
    """Print one line at once, also into a pipe."""
    print(f"{subject + ':':<9} {text}", flush=True)


@contextmanager
def step(subject: str, doing: str, done: str = "ready") -> Iterator[None]:
    """Frame one step with what is being done and how long it took."""
    begun = time.monotonic()
    say(subject, f"{doing} ...")
    yield
    say(subject, f"{done} after {time.monotonic() - begun:.1f} s")
