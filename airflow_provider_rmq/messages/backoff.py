"""The growing pause after failures in a row; whoever waits it, waits it elsewhere."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Doubles from `first` to `limit` seconds; `reset` starts over."""

    first: float = 1.0
    limit: float = 60.0
    failures: int = 0

    def next(self) -> float:
        """Seconds to wait after one more failure."""
        pause = min(self.first * 2.0 ** min(self.failures, 32), self.limit)
        self.failures += 1
        return pause

    def reset(self) -> None:
        """A success ends the row of failures."""
        self.failures = 0
