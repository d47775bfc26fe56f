"""Lines on stderr that cannot hold their writer up: past Airflow's logging, and past a pipe that nobody reads.

For the supervisor, which has no logging, and for what the worker says while another thread may hold logging's locks.
Standard library only.
"""

from __future__ import annotations

import os
import select
from dataclasses import dataclass

#: Seconds a full pipe has to take a line.
PATIENCE = 1.0
#: Bytes of one line: a pipe that polls writable takes a page of them at once.
LONGEST_LINE = 4000

STDERR = 2


@dataclass(slots=True)
class StderrLines:
    """Writes lines, and tells with the next one how many could not be written."""

    descriptor: int = STDERR
    unwritten: int = 0

    def write(self, text: str) -> bool:
        """Write one line; whether it could be written within a second."""
        if self.unwritten:
            text = f"{text} ({self.unwritten} lines before this one could not be written)"
        raw = text.encode(errors="replace")[:LONGEST_LINE] + b"\n"
        try:
            written = self._is_writable() and os.write(self.descriptor, raw) > 0
        except OSError:  # closed, nobody at the other end, or a full disk
            written = False
        self.unwritten = 0 if written else self.unwritten + 1
        return written

    def _is_writable(self) -> bool:
        poll = select.poll()
        poll.register(self.descriptor, select.POLLOUT)
        return any(event & select.POLLOUT for _, event in poll.poll(PATIENCE * 1000))
