"""Checks no linter has: a module fits on a few screens, and no file knows the machine it was written on.

Run by `run_tests`; `python -m tools.check_sources` alone prints one line per finding.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
LONGEST = 400
FOLDERS = (".ci", "airflow_provider_rmq", "constraints", "demo", "docs", "integration", "tests", "tools")
#: Home directories, which exist on one machine only. The first character is in brackets so that this line is clean.
HOME_PATH = re.compile(r"(?<![\w.])[/](?:root|home/\w+|Users/\w+)/[\w.]")


def files(project: Path) -> Iterator[Path]:
    """Yield every file of the project that is written by hand."""
    yield from (path for path in sorted(project.iterdir()) if path.is_file())
    for folder in FOLDERS:
        for path in sorted((project / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def findings(project: Path) -> Iterator[str]:
    """Yield one sentence per violation."""
    for path in files(project):
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        name = path.relative_to(project)
        if path.suffix == ".py" and len(lines) > LONGEST:
            yield f"{name}: {len(lines)} lines, at most {LONGEST}: split it by reason to change"
        for number, line in enumerate(lines, 1):
            if HOME_PATH.search(line):
                yield f"{name}:{number}: names a home directory: {line.strip()[:100]}"


def main() -> int:
    """Print the findings; 1 when there are any."""
    found = list(findings(PROJECT))
    for line in found:
        print(line)
    print(f"check_sources: {len(found) or 'no'} finding{'' if len(found) == 1 else 's'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
