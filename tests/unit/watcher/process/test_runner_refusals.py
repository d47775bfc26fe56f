"""A process of ours that was started wrongly says so and ends with code 2; one whose parent is gone ends with 0."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import airflow_provider_rmq
from airflow_provider_rmq.watcher.process import child
from airflow_provider_rmq.watcher.process.child import BOOTSTRAP, CHILD_MARK, PACKAGE_DIR, PARENT_PID, RUNNER_MODULE


def run(environment, cwd=None):
    return subprocess.run(
        [sys.executable, "-c", BOOTSTRAP, RUNNER_MODULE, "worker"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("given", [{}, {PARENT_PID: "no pid"}, {PARENT_PID: ""}])
def test_without_its_parents_pid_it_does_not_start(given):
    done = run({CHILD_MARK: "worker", **given})

    assert done.returncode == 2
    assert "does not hold the scheduler's PID — not starting the watcher" in done.stderr


def test_a_parent_that_is_gone_already_ends_it_in_order():
    done = run({CHILD_MARK: "worker", PARENT_PID: "999999999"})

    assert done.returncode == 0
    assert "exited before the watcher started" in done.stderr


def test_an_unknown_role_is_refused():
    done = run({CHILD_MARK: "cook", PARENT_PID: str(os.getpid())})

    assert done.returncode == 2
    assert "'cook'; supervisor or worker is allowed" in done.stderr


def test_a_file_in_the_working_directory_is_not_taken_for_a_module(tmp_path):
    for name in ("logging.py", "runpy.py", "signal.py"):
        (tmp_path / name).write_text("raise SystemExit('imported from the working directory')")

    done = run({CHILD_MARK: "cook", PARENT_PID: str(os.getpid())}, cwd=tmp_path)

    assert "working directory" not in done.stderr
    assert done.returncode == 2


def test_a_package_in_the_plugins_folder_is_found_and_its_neighbours_shadow_nothing(tmp_path):
    """Without site-packages: the folder at the end of the path is the only place that has the package."""
    package = Path(airflow_provider_rmq.__file__).parent
    (tmp_path / "airflow_provider_rmq").symlink_to(package)
    for name in ("logging.py", "secrets.py", "subprocess.py"):
        (tmp_path / name).write_text("raise SystemExit('imported from the plugins folder')")

    done = subprocess.run(
        [sys.executable, "-S", "-c", BOOTSTRAP, RUNNER_MODULE, "worker"],
        env={CHILD_MARK: "cook", PARENT_PID: str(os.getpid()), PACKAGE_DIR: str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert "'cook'; supervisor or worker is allowed" in done.stderr
    assert done.returncode == 2


def test_a_child_is_told_the_folder_of_the_package_as_it_was_imported(monkeypatch, tmp_path):
    """A plugins folder may hold a link; what it points to may have another name."""
    (tmp_path / "airflow_provider_rmq").symlink_to(Path(airflow_provider_rmq.__file__).parent)
    monkeypatch.setattr(child, "__file__", str(tmp_path / "airflow_provider_rmq/watcher/process/child.py"))
    started = []
    monkeypatch.setattr(child.subprocess, "Popen", lambda words, **given: started.append(given["env"]))

    child.start_child(child.Role.SUPERVISOR)
    child.start_child(child.Role.WORKER)

    assert [environment[PACKAGE_DIR] for environment in started] == [str(tmp_path)] * 2
    assert started[0][child.SCHEDULER_PID] == str(os.getpid())
