"""The scan of a DAG folder: its changed files are read, all of them are remembered, and the whole is trusted or not.

Blocking; no Airflow. `folder_listing` says which files there are, `file_reader` reads one, `trust` judges the scan. One
that cannot be read or parsed keeps what it declared before for one more scan, since a half-written file is no
statement about the code.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from airflow_provider_rmq.errors import describe
from airflow_provider_rmq.watcher.dagfiles.decorator_calls import FileReading
from airflow_provider_rmq.watcher.dagfiles.file_reader import FileReader, about_file
from airflow_provider_rmq.watcher.dagfiles.folder_listing import FolderListing
from airflow_provider_rmq.watcher.dagfiles.trust import FilesFound, FolderOutage, ScanTrust
from airflow_provider_rmq.watcher.declarations import Complaint, Listing
from airflow_provider_rmq.watcher.subscription import Declaration, SubscriptionKey

log = logging.getLogger(__name__)

#: What changes with a file: modification, change of its attributes, size.
Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of one file; `held` says that the reading is an earlier one, kept for one scan."""

    stamp: Stamp | None
    reading: FileReading
    held: bool = False


@dataclass(slots=True)
class DagFolderScanner:
    """A `DeclarationSource` over the DAG files below a folder; one scan at a time.

    Args:
        folder: Looks the folder up; may raise.
        unignored: Airflow's walk over a folder, which knows `.airflowignore`.
        reader: Reads one file.
    """

    folder: Callable[[], Path]
    unignored: Callable[[str], Iterable[str]]
    reader: FileReader
    _known: dict[str, _Known] = field(default_factory=dict)
    _trust: ScanTrust = field(default_factory=ScanTrust)
    _told: frozenset[Complaint] = frozenset()
    _changed: bool = False
    _counts: FilesFound = field(default_factory=lambda: FilesFound(0, 0))
    _last: Listing | None = None
    _scanning: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> Listing:
        """Scan the folder. A scan that is no statement about the code is distrusted, and what is known stays known."""
        if not self._scanning.acquire(blocking=False):
            return Listing(distrust="an earlier scan of the DAG folder has not ended yet")
        try:
            return self._scan()
        finally:
            self._scanning.release()

    def _scan(self) -> Listing:
        try:
            listing = FolderListing(str(self.folder()), self.unignored)
            paths = listing.paths()
        except Exception as error:  # noqa: BLE001 - a setting of any shape, a file system of any kind
            return self._judged(FolderOutage(f"the DAG folder cannot be listed: {describe(error)}"), {})
        self._changed = False
        found = self._read_paths(paths)
        if self._changed or self._last is None or len(found) != len(self._known):
            found |= self._read_paths(path for path in self._known if path not in found and listing.hides(path))
            self._counts, self._last = _counted(found), None
        return self._judged(self._counts, found)

    def _read_paths(self, paths: Iterable[str]) -> dict[str, _Known]:
        return {path: known for path in paths if (known := self._read_path(path)) is not None}

    def _judged(self, observation: FolderOutage | FilesFound, found: dict[str, _Known]) -> Listing:
        self._trust, distrust = self._trust.after(observation)
        if distrust:
            self._known |= found
            self._last = None
            return Listing(distrust=distrust)
        self._known = found
        if self._last is None:
            self._last = self._listing()
        return self._last

    def _read_path(self, path: str) -> _Known | None:
        """What is known of a file after this scan; None where it is no file at all."""
        known = self._known.get(path)
        stamp: Stamp | None = None
        try:
            status = os.stat(path)  # noqa: PTH116 - a `Path` for every file would triple the price of a scan
            stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size)
            if known is not None and known.stamp == stamp and not known.held:
                return known
            self._changed = True
            if not stat.S_ISREG(status.st_mode):
                return None  # a pipe would hold the scan for ever
            reading = self.reader.read(path, changed=known is not None)
        except OSError as error:  # the next scan tries again, so there is no stamp
            self._changed = True
            stamp, reading = None, FileReading(failure=describe(error), is_dag_file=_is_dag_file(path, known))
        return _Known(stamp, reading) if reading.failure is None else _keep_once(path, known, stamp, reading)

    def _listing(self) -> Listing:
        first: dict[SubscriptionKey, tuple[str, Declaration]] = {}
        complaints: list[Complaint] = []
        telling = [path for path, known in self._known.items() if known.reading.says_something]
        for path in sorted(telling):
            reading = self._known[path].reading
            complaints.extend(reading.complaints)
            for declaration in reading.declarations:
                known_path, known = first.setdefault(declaration.key, (path, declaration))
                if known_path != path or known != declaration:
                    complaints.append(_declared_twice(declaration, path, known_path))
        self._tell(complaints)
        return Listing(
            declarations=frozenset(declaration for _, declaration in first.values()), complaints=tuple(complaints)
        )

    def _tell(self, complaints: list[Complaint]) -> None:
        """Log what was not in the last listing."""
        for complaint in complaints:
            if complaint not in self._told:
                log.warning("%s", complaint)
        self._told = frozenset(complaints)


def _counted(found: dict[str, _Known]) -> FilesFound:
    counted = [known for known in found.values() if known.reading.is_dag_file]
    readable = sum(known.reading.failure is None and not known.held for known in counted)
    return FilesFound(len(counted), readable)


def _keep_once(path: str, known: _Known | None, stamp: Stamp | None, reading: FileReading) -> _Known:
    """Keep what a file declared before for one scan; then it declares nothing, and if that matters, says so."""
    if known is not None and known.reading.declarations and not known.held:
        log.warning("DAG file %s cannot be read, keeping what it declared for one scan: %s", path, reading.failure)
        return _Known(stamp, known.reading, held=True)
    if reading.mentions or (known is not None and known.reading.says_something):
        complaint = about_file(path, f"cannot be read: {reading.failure}")
        reading = replace(reading, complaints=(*reading.complaints, complaint))
    elif reading.is_dag_file and (known is None or known.reading.failure != reading.failure):
        log.warning("DAG file %s cannot be read: %s", path, reading.failure)
    return _Known(stamp, reading)


def _is_dag_file(path: str, known: _Known | None) -> bool:
    return path.endswith((".py", ".zip")) if known is None else known.reading.is_dag_file


def _declared_twice(declaration: Declaration, path: str, first_path: str) -> Complaint:
    dag_id, queue, conn_id = declaration.key
    elsewhere = "in this file" if first_path == path else f"in {first_path}"
    return Complaint(
        path=path,
        dag_id=dag_id,
        queue=queue,
        parameter=f"queue ({conn_id})",
        reason=f"is declared already {elsewhere}",
        consequence="that one counts",
    )
