"""Every fact that differs between Airflow versions, as names and verbs; the only module that imports Airflow.

Names that moved are a table, resolved on first use, so that importing this module costs nothing. Verbs say what the
rest of the package wants of Airflow and hide how a version does it. Nothing here runs at import.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from airflow.exceptions import AirflowException as AirflowException
    from airflow.exceptions import AirflowSkipException as AirflowSkipException
    from airflow.exceptions import ParamValidationError as ParamValidationError
    from airflow.hooks.base import BaseHook as BaseHook
    from airflow.models.baseoperator import BaseOperator as BaseOperator
    from airflow.plugins_manager import AirflowPlugin as AirflowPlugin
    from airflow.sensors.base import BaseSensorOperator as BaseSensorOperator
    from airflow.sensors.base import PokeReturnValue as PokeReturnValue
    from airflow.triggers.base import BaseTrigger as BaseTrigger
    from airflow.triggers.base import TriggerEvent as TriggerEvent

#: name -> modules that may hold it, newest first.
_MOVED = {
    "AirflowException": ("airflow.exceptions",),
    "AirflowPlugin": ("airflow.plugins_manager",),
    "AirflowSkipException": ("airflow.exceptions",),
    "BaseHook": ("airflow.hooks.base",),
    "BaseOperator": ("airflow.models.baseoperator",),
    "BaseSensorOperator": ("airflow.sensors.base",),
    "BaseTrigger": ("airflow.triggers.base",),
    "ParamValidationError": ("airflow.exceptions",),
    "PokeReturnValue": ("airflow.sensors.base",),
    "TriggerEvent": ("airflow.triggers.base",),
}


def __getattr__(name: str) -> Any:
    """Resolve a moved name on first use and remember it."""
    for module_name in _MOVED.get(name, ()):
        value = getattr(import_module(module_name), name, None)
        if value is not None:
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# --- connections and settings ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRecord:
    """The fields of an Airflow connection; `extra` is the parsed JSON object, empty when there is none."""

    conn_id: str
    host: str | None = None
    port: int | None = None
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    schema: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


def airflow_connection(conn_id: str) -> ConnectionRecord:
    """Look the connection up in Airflow's secrets backends and its metadata database. Blocking.

    Raises:
        airflow.exceptions.AirflowNotFoundException: No backend knows the id.
    """
    from airflow.models import Connection

    return connection_record(Connection.get_connection_from_secrets(conn_id))


def connection_record(connection: Any) -> ConnectionRecord:
    """The fields of an Airflow `Connection` object."""
    return ConnectionRecord(
        conn_id=connection.conn_id or "",
        host=connection.host,
        port=connection.port,
        login=connection.login,
        password=connection.password,
        schema=connection.schema,
        extra=connection.extra_dejson,
    )


def read_variable(name: str) -> str | None:
    """An Airflow Variable as text, None when it is not set. Blocking; raises what the database raises."""
    from airflow.models import Variable

    value = Variable.get(name, default_var=None)
    return None if value is None else str(value)


def config_option(section: str, option: str) -> str | None:
    """An option of Airflow's configuration as text, None when nobody set it and no provider declares a default."""
    from airflow.configuration import conf

    value = conf.get(section, option, fallback=None)
    return None if value is None else str(value)


def dags_folder() -> Path:
    """The folder the Scheduler parses DAG files from.

    Raises:
        ValueError: The setting is empty, which as a path would be the working directory.
    """
    from airflow import settings

    if not str(settings.DAGS_FOLDER or "").strip():
        raise ValueError("[core] dags_folder is empty")
    return Path(settings.DAGS_FOLDER)


def unignored_files(folder: str) -> Iterable[str]:
    """Every file below a folder that no `.airflowignore` excludes, as Airflow reads those."""
    from airflow.utils.file import find_path_from_directory

    found: Iterable[str] = find_path_from_directory(folder, ".airflowignore")
    return found


def may_hold_dag(path: str, archive: Any = None) -> bool:
    """Whether Airflow would look for DAGs in a file, or in a member of a `zipfile.ZipFile`; reads it, never runs it.

    With `[core] dag_discovery_safe_mode`, the default, it passes over files that mention no DAG or no Airflow.
    """
    from airflow.configuration import conf
    from airflow.utils.file import might_contain_dag

    safe_mode = conf.getboolean("core", "dag_discovery_safe_mode", fallback=True)
    return bool(might_contain_dag(path, safe_mode, archive))


def session_factory() -> Callable[[], Any]:
    """Airflow's own SQLAlchemy session factory; one session per call."""
    from airflow import settings

    if settings.Session is None:
        raise RuntimeError("Airflow's database session is not configured in this process")
    factory: Callable[[], Any] = settings.Session.session_factory
    return factory


def count_metric(name: str, count: int = 1) -> None:
    """Increment a counter of Airflow's metrics."""
    from airflow.stats import Stats

    Stats.incr(name, count)


F = TypeVar("F", bound=Callable[..., Any])


def listener_hook(function: F) -> F:
    """Mark a method as an implementation of one of Airflow's listener hooks."""
    from airflow.listeners import hookimpl

    marked: F = hookimpl(function)
    return marked


# --- processes -------------------------------------------------------------------------------------------------------

#: Set in a child process that reads Airflow's models as a server component does; without it Airflow 3 looks
#: connections and Variables up through a task's API and finds none (seen on 3.3.2). Airflow 2 ignores it.
CHILD_ENVIRONMENT = {"_AIRFLOW_PROCESS_CONTEXT": "server"}

#: Modules between a component's constructor and the command that started it.
_BETWEEN = ("airflow.jobs.job", "airflow.listeners", "airflow.utils.session")


def running_in_scheduler(component: object) -> bool:
    """Whether the component whose constructor is on the stack is the Scheduler's own job.

    Airflow 2.9 to 3.3 call `on_starting` inside `Job.__init__`, before the job's type is set. The command line and
    the outer frames lie: LocalExecutor forks the Scheduler, so a task's supervisor keeps both. The nearest Airflow
    frame outside the job machinery tells the truth on all of them (seen on 2.9.3, 2.11.0 and 3.3.2).
    """
    if type(component).__name__ != "Job":
        return False
    module = _nearest_airflow_module(sys._getframe(1))  # noqa: SLF001 - the documented way to look up the stack
    return module is not None and module.endswith(".scheduler_command")


def _nearest_airflow_module(frame: FrameType | None) -> str | None:
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("airflow.") and not name.startswith(_BETWEEN):
            return name
        frame = frame.f_back
    return None


def prepare_process() -> None:
    """Load the providers' configuration and all plugins, as the Scheduler has before its jobs run."""
    from airflow import plugins_manager
    from airflow.providers_manager import ProvidersManager

    ProvidersManager().initialize_providers_configuration()
    plugins_manager.ensure_plugins_loaded()


def is_web_ui(app: Any) -> bool:
    """Whether a Flask application is Airflow's own web UI.

    The commands behind `airflow users`, `airflow roles` and `airflow sync-perm` register the plugins' blueprints with
    an application of their own (seen on 2.9.3 and 2.11.2).
    """
    return str(getattr(app, "import_name", "")) == "airflow.www.app"


# --- DAGs and DAG runs -----------------------------------------------------------------------------------------------


class DagState(Enum):
    """What Airflow knows of a DAG."""

    MISSING = "missing"
    INACTIVE = "inactive"
    PAUSED = "paused"
    NOT_SERIALIZED = "not serialized"
    READY = "ready"


def dag_states(session: Any, dag_ids: Iterable[str]) -> dict[str, DagState]:
    """The state of each asked DAG, with two queries whatever their number."""
    from airflow.models import DagModel
    from airflow.models.serialized_dag import SerializedDagModel
    from sqlalchemy import select

    wanted = sorted(set(dag_ids))
    if not wanted:
        return {}
    columns = (DagModel.dag_id, DagModel.is_active, DagModel.is_paused)
    known = {row[0]: row for row in session.execute(select(*columns).where(DagModel.dag_id.in_(wanted)))}
    serialized = set(session.scalars(select(SerializedDagModel.dag_id).where(SerializedDagModel.dag_id.in_(wanted))))
    return {dag_id: _dag_state(known.get(dag_id), serialized=dag_id in serialized) for dag_id in wanted}


def _dag_state(row: Any, *, serialized: bool) -> DagState:
    if row is None:
        return DagState.MISSING
    _, is_active, is_paused = row
    if not is_active:
        return DagState.INACTIVE
    if is_paused:
        return DagState.PAUSED
    return DagState.READY if serialized else DagState.NOT_SERIALIZED


class RunCreation(Enum):
    """How an attempt to create a DAG run ended."""

    CREATED = "created"
    DUPLICATE = "duplicate"
    DAG_NOT_FOUND = "DAG not found"


#: Attempts with another microsecond before a clash of logical dates is given up.
_LOGICAL_DATE_ATTEMPTS = 20


def create_dag_run(dag_id: str, run_id: str, conf: Mapping[str, Any]) -> RunCreation:
    """Create one DAG run and commit it. Blocking.

    Airflow 2 has two unique keys on `dag_run`: an equal run id is a duplicate, an equal logical date is a clash
    between strangers and gets another microsecond. The error alone does not tell them apart (the text of
    `DagRunAlreadyExists` names our run id in both cases, and under concurrency the loser gets `IntegrityError`:
    seen on 2.9.3 and 2.11.2), so the table is asked.
    """
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.exceptions import DagNotFound, DagRunAlreadyExists
    from sqlalchemy.exc import IntegrityError

    moment = datetime.now(timezone.utc)
    for attempt in range(_LOGICAL_DATE_ATTEMPTS):
        arguments: dict[str, Any] = {
            "dag_id": dag_id,
            "run_id": run_id,
            "conf": dict(conf),
            "execution_date": moment + timedelta(microseconds=attempt * (attempt + 1) // 2),
            "replace_microseconds": False,
        }
        accepted = inspect.signature(trigger_dag).parameters
        if "triggered_by" in accepted:
            arguments["triggered_by"] = _triggered_by()
        try:
            trigger_dag(**arguments)
        except DagNotFound:
            return RunCreation.DAG_NOT_FOUND
        except (DagRunAlreadyExists, IntegrityError):
            if dag_run_exists(dag_id, run_id):
                return RunCreation.DUPLICATE
            continue
        return RunCreation.CREATED
    raise RuntimeError(
        f"DAG {dag_id}: {_LOGICAL_DATE_ATTEMPTS} logical dates from {moment.isoformat()} on are taken by other runs"
    )


def _triggered_by() -> Any:
    from airflow.utils.types import DagRunTriggeredByType

    return DagRunTriggeredByType.OPERATOR


def dag_run_exists(dag_id: str, run_id: str) -> bool:
    """Whether this DAG has a run of exactly this id."""
    from airflow.models import DagRun
    from sqlalchemy import select

    session = session_factory()()
    try:
        found = session.scalar(select(DagRun.id).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    finally:
        session.close()
    return found is not None


# --- deferred tasks --------------------------------------------------------------------------------------------------


def default_deferrable() -> bool:
    """What `[operators] default_deferrable` says."""
    from airflow.configuration import conf

    return bool(conf.getboolean("operators", "default_deferrable", fallback=False))


class HandOver(Enum):
    """What became of an event that a trigger yielded."""

    PENDING = "not stored yet"
    STORED = "stored for its task"
    UNWANTED = "nobody will read it"
    UNKNOWN = "this version does not tell"


def hand_over_of(trigger: Any, key: str, token: str) -> HandOver:
    """Whether Airflow has stored the event that carries `token` under `key`. Blocking.

    The triggerer keeps events in memory until its next turn, and two triggerers may run the same trigger. A stored
    event stands in the task instance's `next_kwargs`, which Airflow 2.9 to 2.11 keep until the resumed task ends.
    """
    from airflow.models import TaskInstance
    from sqlalchemy import select

    ti, trigger_id = getattr(trigger, "task_instance", None), getattr(trigger, "trigger_id", None)
    if ti is None or trigger_id is None:
        return HandOver.UNKNOWN
    session = session_factory()()
    try:
        row = session.execute(
            select(TaskInstance.trigger_id, TaskInstance.next_kwargs).where(
                TaskInstance.dag_id == ti.dag_id,
                TaskInstance.task_id == ti.task_id,
                TaskInstance.run_id == ti.run_id,
                TaskInstance.map_index == ti.map_index,
            )
        ).first()
    finally:
        session.close()
    if row is None:
        return HandOver.UNWANTED
    event = (row.next_kwargs or {}).get("event")
    if isinstance(event, Mapping) and event.get(key) == token:
        return HandOver.STORED
    return HandOver.PENDING if row.trigger_id == trigger_id else HandOver.UNWANTED


def is_dag_gone(trigger: Any) -> bool:
    """Whether Airflow counts the DAG of a trigger's task as deleted, so that nobody would resume the task. Blocking.

    The triggerer does not look: it runs the triggers of paused and of deleted DAGs alike (seen on 2.11.2).
    """
    from airflow.models import DagModel
    from sqlalchemy import select

    ti = getattr(trigger, "task_instance", None)
    if ti is None:
        return False
    session = session_factory()()
    try:
        is_active = session.scalar(select(DagModel.is_active).where(DagModel.dag_id == ti.dag_id))
    finally:
        session.close()
    return not is_active
