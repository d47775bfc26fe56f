"""Log lines about what fails in every cycle: the first time, and then on powers of ten."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from airflow_provider_rmq.messages.misses import is_power_of_ten


@dataclass(slots=True)
class CycleComplaints:
    """Counts complaints over cycles; one that a cycle does not repeat is news when it returns."""

    logger: logging.Logger
    _counts: dict[str, int] = field(default_factory=dict)
    _this_cycle: set[str] = field(default_factory=set)

    def error(self, text: str) -> None:
        """Complain; the text is its own identity."""
        if text in self._this_cycle:
            return
        self._this_cycle.add(text)
        count = self._counts[text] = self._counts.get(text, 0) + 1
        if is_power_of_ten(count, first=1):
            self.logger.error("%s%s", text, f" (for the {count}th time)" if count > 1 else "")

    def end_cycle(self) -> None:
        """Forget what was not complained about."""
        self._counts = {text: count for text, count in self._counts.items() if text in self._this_cycle}
        self._this_cycle = set()
