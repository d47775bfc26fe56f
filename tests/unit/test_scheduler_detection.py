"""Which component is the Scheduler is told by the nearest Airflow frame, not by argv and not by any frame above."""

import sys
from functools import partial
from types import ModuleType

import pytest

from airflow_provider_rmq.compat import running_in_scheduler

SCHEDULER, TASK, TRIGGERER = (f"airflow.cli.commands.{name}_command" for name in ("scheduler", "task", "triggerer"))
JOB = "airflow.jobs.job"


class Job:
    """Has the name of Airflow's class; that is what is looked at."""


class TaskCommandMarker:
    """What a task's process announces itself with on Airflow 2."""


def called_through(modules, function):
    """Call a function with one frame of each of these modules on the stack, the first one outermost."""
    for name in reversed(modules):
        module = ModuleType(name)
        exec("def call(inner): return inner()", module.__dict__)
        function = partial(module.call, function)
    return function()


def detected(*modules, component=None):
    return called_through(modules, lambda: running_in_scheduler(component or Job()))


def test_the_schedulers_own_job_is_detected():
    assert detected(SCHEDULER, JOB)


def test_frames_of_the_database_layer_between_do_not_matter():
    assert detected(SCHEDULER, JOB, "sqlalchemy.orm.state", "sqlalchemy.orm.instrumentation", JOB, "pluggy._manager")


def test_a_task_forked_from_the_scheduler_is_not_the_scheduler():
    """LocalExecutor's forks keep the Scheduler's frames and its command line."""
    assert not detected(SCHEDULER, "airflow.executors.local_executor", TASK, JOB)


def test_a_task_marker_is_not_the_scheduler():
    assert not detected(SCHEDULER, component=TaskCommandMarker())


@pytest.mark.parametrize("command", [TRIGGERER, TASK, "airflow.cli.commands.dag_command"])
def test_other_components_are_not_the_scheduler(command, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["airflow", "scheduler"])

    assert not detected(command, JOB)


def test_without_any_airflow_frame_it_is_not_the_scheduler():
    assert not running_in_scheduler(Job())
