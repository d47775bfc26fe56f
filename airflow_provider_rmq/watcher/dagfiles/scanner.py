"""The scan of a DAG folder: walks it, reads changed files, lists what they declare. Blocking; no Airflow.

A file is read again only when its modification time or size has changed. One that cannot be read or parsed keeps
what it declared before for one more scan, since a half-written file is no statement about the code.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from airflow_provider_rmq.errors import describe
from airflow_provider_rmq.watcher.dagfiles.decorator_calls import FileReading, read_file_text
from airflow_provider_rmq.watcher.declarations import Complaint, Listing
from airflow_provider_rmq.watcher.subscription import Declaration

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Known:
    """What is known of one file."""

    stamp: tuple[int, int] | None
    reading: FileReading
    held: bool = False


@dataclass(slots=True)
class DagFolderScanner:
    """A `DeclarationSource` over the Python files below a folder."""

    folder: Callable[[], Path]
    _known: dict[Path, _Known] = field(default_factory=dict)

    def read(self) -> Listing:
        """Scan the folder; a folder that cannot be listed is distrusted, and what is known stays known."""
        try:
            folder = self.folder()
            paths = sorted(_python_files(folder))
        except Exception as error:  # noqa: BLE001 - a setting of any shape, a file system of any kind
            return Listing(distrust=f"the DAG folder cannot be listed: {describe(error)}")
        self._known = {path: self._read_path(path) for path in paths}
        return self._listing()

    def _read_path(self, path: Path) -> _Known:
        known = self._known.get(path)
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if known and known.stamp == stamp and not known.held:
                return known
            reading = read_file_text(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            stamp, reading = None, FileReading(failure=describe(error))
        if reading.failure is None:
            for complaint in reading.complaints:
                log.warning("%s", complaint)
            return _Known(stamp, reading)
        return self._keep_once(path, known, stamp, reading)

    @staticmethod
    def _keep_once(path: Path, known: _Known | None, stamp: tuple[int, int] | None, reading: FileReading) -> _Known:
        if known is None or known.held or not known.reading.declarations:
            if known is None or known.stamp != stamp or known.held:
                log.warning("DAG file %s cannot be read: %s", path, reading.failure)
            return _Known(stamp, reading)
        log.warning("DAG file %s cannot be read, keeping what it declared for one scan: %s", path, reading.failure)
        return _Known(stamp, known.reading, held=True)

    def _listing(self) -> Listing:
        declarations: set[Declaration] = set()
        complaints: list[Complaint] = []
        for known in self._known.values():
            declarations.update(known.reading.declarations)
            complaints.extend(known.reading.complaints)
        return Listing(declarations=frozenset(declarations), complaints=tuple(complaints))


def _python_files(folder: Path) -> Iterator[Path]:
    """Every `*.py` below the folder, at any depth.

    Raises:
        OSError: The folder, or one below it, cannot be listed.
    """
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is no folder")

    def refuse(error: OSError) -> None:
        raise error

    for directory, folders, files in os.walk(folder, onerror=refuse, followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in files:
            if name.endswith(".py"):
                yield Path(directory, name)
