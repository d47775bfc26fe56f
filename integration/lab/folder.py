"""A folder of throw-away data: fresh for each run, one run at a time, and never anything in it that we did not make.

`make demo` keeps `.demo/` this way, `make test` keeps `.test/`.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from integration.lab.processes import LabError

NEEDED_MEGABYTES = 300


@contextmanager
def fresh_folder(path: Path, owner: str) -> Iterator[Path]:
    """Empty the folder, or make it, and keep other runs out of it.

    Args:
        path: the folder.
        owner: the command it belongs to; a folder another command or person made is left alone.

    Raises:
        LabError: it is somebody else's, in use, or there is no space.
    """
    marker = path / f".made-by-{owner.replace(' ', '-')}"
    if path.exists() and not marker.exists() and any(path.iterdir()):
        raise LabError(f"{path} was not made by {owner}; move it away")
    path.mkdir(exist_ok=True)
    with marker.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(f"another {owner} runs in {path}; end it first") from None
        for entry in path.iterdir():
            if entry == marker:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        free = shutil.disk_usage(path).free // 2**20
        if free < NEEDED_MEGABYTES:
            raise LabError(f"no space: {free} MB free at {path}, {owner} needs {NEEDED_MEGABYTES} MB")
        yield path
