"""`ScanTrust`: whether one scan of the DAG folder is a statement about the code. Pure; `scanner` asks it.

An unmounted volume and a deployment that deleted everything look alike, and the rows of one of them must survive. So a
scan that lost more than half of what the folder held is not believed at first, and believed in the end:

| the scan found | becomes |
|---|---|
| no listing at all: no setting, no folder, no permission | distrusted, however often; nothing else changes |
| nothing readable, before any listing was believed | distrusted three times, then believed |
| anything else, before any listing was believed | believed |
| less than half of the files known | distrusted three times, then believed; what it found is then what is known |
| anything else | believed; the files known never shrink by it |

Once a folder without a readable file has been believed, nothing readable is less than half of nothing no more, and the
same scan stays believed until a file reads again. Which way a file refused (gone, locked, cut off) plays no part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

#: Scans in a row that are distrusted before such a scan is believed.
DISTRUSTED_SCANS = 3


@dataclass(frozen=True, slots=True)
class FolderOutage:
    """The folder gave no listing."""

    reason: str


@dataclass(frozen=True, slots=True)
class FilesFound:
    """The folder gave a listing: so many DAG files, and so many of them could be read and parsed."""

    listed: int
    readable: int


Observation = FolderOutage | FilesFound


@dataclass(frozen=True, slots=True)
class ScanTrust:
    """What is known of the folder.

    Args:
        known: The most readable files it held since a shrink was last believed; None before the first belief.
        spent: Distrusted scans in a row so far.
    """

    known: int | None = None
    spent: int = 0

    def after(self, observation: Observation) -> tuple[ScanTrust, str | None]:
        """What is known after a scan, and why the scan is not believed, or None when it is."""
        if isinstance(observation, FolderOutage):
            return self, observation.reason
        if not self._is_suspicious(observation):
            return ScanTrust(max(self.known or 0, observation.readable)), None
        if self.spent >= DISTRUSTED_SCANS:
            return ScanTrust(observation.readable), None
        spent = self.spent + 1
        return replace(self, spent=spent), (
            f"{self._found(observation)}; such a scan is not believed {DISTRUSTED_SCANS} times in a row, "
            f"this is number {spent}"
        )

    def _is_suspicious(self, found: FilesFound) -> bool:
        if self.known is None:
            return not found.readable
        return found.readable * 2 < self.known

    def _found(self, found: FilesFound) -> str:
        if not found.listed:
            held = "" if self.known is None else f" and is known to have held {self.known} readable ones"
            return f"the DAG folder lists no DAG file{held}"
        readable = f"of {found.listed} DAG files listed {found.readable} can be read"
        return readable if self.known is None else f"{readable}, and {self.known} were known"
