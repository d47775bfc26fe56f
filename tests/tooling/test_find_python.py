"""`tools/find-python` takes the newest Python that runs, whatever names are on PATH."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools/find-python"
NOT_FOUND = "#!/bin/sh\necho 'command not found' >&2\nexit 127\n"


@pytest.fixture
def on_path(tmp_path: Path) -> Callable[[str, str], Path]:
    """Put an executable on an otherwise empty PATH: a version that answers, or a script."""

    def put(name: str, answer: str, folder: str = "bin") -> Path:
        file = tmp_path / folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(answer if answer.startswith("#!") else f"#!/bin/sh\necho '{answer} {file}'\n")
        file.chmod(0o755)
        return file

    (tmp_path / "bin").mkdir()
    return put


def find(tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": f"{tmp_path}/bin:{tmp_path}/more", **variables}
    return subprocess.run(["/bin/sh", SCRIPT], check=False, capture_output=True, text=True, env=env)


def test_the_newest_version_wins(tmp_path, on_path):
    on_path("python3.10", "3.10")
    newest = on_path("python3.12", "3.12")
    on_path("python3.13", "3.13")

    assert find(tmp_path).stdout.strip() == str(newest)


def test_a_wrapper_that_does_not_run_is_passed_over(tmp_path, on_path):
    on_path("python3.12", NOT_FOUND)
    on_path("python3.11", NOT_FOUND)
    later_on_path = on_path("python3.11", "3.11", folder="more")

    assert find(tmp_path).stdout.strip() == str(later_on_path)


def test_plain_python3_is_taken_when_its_version_fits(tmp_path, on_path):
    plain = on_path("python3", "3.10")

    assert find(tmp_path).stdout.strip() == str(plain)


def test_a_too_new_python_is_named_with_what_to_install(tmp_path, on_path):
    on_path("python3", "3.13")

    done = find(tmp_path)

    assert done.returncode == 1
    assert "Python 3.13 is too new for Airflow 2; install one of Python 3.12 3.11 3.10" in done.stderr


def test_no_python_at_all_is_said(tmp_path, on_path):
    done = find(tmp_path)

    assert done.returncode == 1
    assert "no Python runs here" in done.stderr


def test_the_variable_python_decides(tmp_path, on_path):
    on_path("python3.12", "3.12")
    chosen = on_path("python3.10", "3.10")

    assert find(tmp_path, PYTHON=str(chosen)).stdout.strip() == str(chosen)


def test_a_wrong_variable_python_is_refused(tmp_path, on_path):
    too_new = on_path("python3.13", "3.13")

    done = find(tmp_path, PYTHON=str(too_new))

    assert done.returncode == 1
    assert "is Python 3.13" in done.stderr


def test_a_running_interpreter_answers_with_its_own_path():
    found = subprocess.run([SCRIPT], check=False, capture_output=True, text=True, env=os.environ)

    assert found.returncode == 0, found.stderr
    assert Path(found.stdout.strip()).is_file()
