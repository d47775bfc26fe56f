"""Reads one DAG file, plain or zipped, into what it declares. Blocking; `decorator_calls` understands the text."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from airflow_provider_rmq.errors import describe
from airflow_provider_rmq.watcher.dagfiles.decorator_calls import FileReading, read_file_text
from airflow_provider_rmq.watcher.declarations import Complaint

#: Airflow's safe mode: path, and for a member of an archive its name and the archive.
MayHoldDag = Callable[[str, "zipfile.ZipFile | None"], bool]

#: Bytes of a member of an archive that are read; a DAG file is smaller by orders of magnitude.
LONGEST_MEMBER = 16 * 1024 * 1024

#: What a damaged, encrypted or unknown archive raises.
_ARCHIVE_ERRORS = (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError, ValueError)


@dataclass(slots=True)
class FileReader:
    """Reads files; remembers whether any of them has been Python, which is all that a first scan must know."""

    may_hold_dag: MayHoldDag
    _seen_python: bool = False

    def read(self, path: str, *, changed: bool) -> FileReading:
        """What a regular file declares.

        Args:
            path: The file.
            changed: Whether it was read before. Such a file is parsed even where it does not mention `rmq_trigger`,
                because one that was cut off in the middle may have lost just that.

        Raises:
            OSError: It cannot be opened or read.
        """
        if path.endswith(".py"):
            return self._read_source(Path(path).read_bytes(), path, None, path, changed=changed)
        if zipfile.is_zipfile(path):
            return self._read_archive(path, changed=changed)
        if path.endswith(".zip"):
            return FileReading(failure="it is no zip archive")
        return FileReading(is_dag_file=False)

    def _read_archive(self, path: str, *, changed: bool) -> FileReading:
        """Airflow loads the Python files in the root of an archive; what is compiled only cannot be read here."""
        try:
            with zipfile.ZipFile(path) as archive:
                members = [info for info in archive.infolist() if _is_loaded(info.filename)]
                return _joined([self._read_member(archive, info, path, changed=changed) for info in members])
        except _ARCHIVE_ERRORS as error:
            return FileReading(failure=describe(error))

    def _read_member(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str, *, changed: bool) -> FileReading:
        with archive.open(info) as member:
            data = member.read(LONGEST_MEMBER + 1)
        if len(data) > LONGEST_MEMBER:
            return FileReading(failure=f"{info.filename} is longer than {LONGEST_MEMBER} bytes")
        return self._read_source(data, info.filename, archive, f"{path}/{info.filename}", changed=changed)

    def _read_source(
        self, data: bytes, name: str, archive: zipfile.ZipFile | None, label: str, *, changed: bool
    ) -> FileReading:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            return FileReading(failure=describe(error))
        reading = read_file_text(text, label, parse=changed or not self._seen_python)
        if reading.failure is None:
            self._seen_python = True
        return self._unless_passed_over(reading, name, archive, label) if reading.says_something else reading

    def _unless_passed_over(
        self, reading: FileReading, name: str, archive: zipfile.ZipFile | None, label: str
    ) -> FileReading:
        try:
            if self.may_hold_dag(name, archive):
                return reading
            reason = "mentions no DAG or no Airflow, so Airflow's safe mode passes over it"
        except Exception as error:  # noqa: BLE001 - an installation may put a function of its own there
            reason = f"cannot be judged by Airflow's safe mode: {describe(error)}"
        return FileReading(complaints=(about_file(label, reason),))


def about_file(path: str, reason: str) -> Complaint:
    """A complaint about a whole file."""
    return Complaint(path=path, reason=reason, consequence="nothing in it is registered")


def _is_loaded(name: str) -> bool:
    member = PurePosixPath(name)
    return member.suffix == ".py" and len(member.parts) == 1


def _joined(readings: Iterable[FileReading]) -> FileReading:
    """The readings of an archive's members as one; it fails where one of them does."""
    parts = list(readings)
    failures: Iterable[Any] = (part.failure for part in parts if part.failure)
    return FileReading(
        declarations=tuple(item for part in parts for item in part.declarations),
        complaints=tuple(item for part in parts for item in part.complaints),
        failure=next(iter(failures), None),
        mentions=any(part.mentions for part in parts),
    )
