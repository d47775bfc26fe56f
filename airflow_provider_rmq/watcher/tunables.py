"""Names and defaults of what an installation can tune about the watcher, and the arithmetic on it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from airflow_provider_rmq import compat
from airflow_provider_rmq.errors import describe

log = logging.getLogger(__name__)

#: Airflow Variable: seconds between two cycles.
RECONCILE_INTERVAL_VARIABLE = "rmq_watcher_reconcile_interval"
#: Seconds between two cycles where the Variable is not set.
DEFAULT_RECONCILE_INTERVAL = 60
#: Seconds one blocking step of a cycle may take.
STEP_TIMEOUT = 60.0
#: Airflow Variable: seconds one cycle may take.
CYCLE_TIMEOUT_VARIABLE = "rmq_watcher_cycle_timeout"
#: Seconds a cycle gets at least where the Variable is not set.
SHORTEST_CYCLE_TIMEOUT = 300.0
#: Seconds reading the Variables may take; a cycle does not need them to go on.
VARIABLES_TIMEOUT = 10.0
#: Seconds a cancelled consumer has to end before it is left behind.
ABANDON_AFTER = 5.0
#: Seconds the consumers have to settle what they hold and detach when the watcher stops.
CONSUMER_STOP_TIMEOUT = 30.0


class Metric(str, Enum):
    """Counters, below Airflow's metrics prefix."""

    __str__ = str.__str__  # a metrics client formats the name into its line

    CONSUMER_ATTACHED = "rmq_watcher.consumer_attached"
    CONSUMER_RESTARTED = "rmq_watcher.consumer_restarted"
    DAG_TRIGGERED = "rmq_watcher.dag_triggered"
    FILTER_MISSED = "rmq_watcher.filter_missed"
    FILTER_ERRORED = "rmq_watcher.filter_errored"
    CYCLE_COMPLETED = "rmq_watcher.cycle_completed"
    CYCLE_TIMED_OUT = "rmq_watcher.cycle_timed_out"
    CYCLE_STEP_TIMED_OUT = "rmq_watcher.cycle_step_timed_out"
    CYCLE_STEP_SKIPPED = "rmq_watcher.cycle_step_skipped"
    TASKS_ABANDONED = "rmq_watcher.tasks_abandoned"
    PROCESS_RESTARTED = "rmq_watcher.process_restarted"


@dataclass(frozen=True, slots=True)
class Timing:
    """How often the watcher cycles, and how long a cycle may take; both in seconds."""

    interval: float = DEFAULT_RECONCILE_INTERVAL
    timeout: float | None = None

    @property
    def budget(self) -> float:
        """Seconds one cycle may take."""
        return cycle_timeout(self.interval, self.timeout)


def cycle_timeout(interval: float, override: float | None) -> float:
    """Seconds one cycle may take: what is set, or three intervals and five minutes at least."""
    return override if override is not None else max(interval * 3, SHORTEST_CYCLE_TIMEOUT)


def stale_after(interval: float, budget: float) -> float:
    """Seconds a stamp of a healthy watcher may be old: it is written at the end of a cycle, then comes an interval."""
    return interval + budget


def read_timing(read_variable: Callable[[str], str | None], last: Timing) -> Timing:
    """Both Variables; one that cannot be read keeps its value in `last`.

    Args:
        read_variable: Looks an Airflow Variable up; blocking.
        last: The timing in force.
    """
    interval = _read_seconds(read_variable, RECONCILE_INTERVAL_VARIABLE, last.interval, DEFAULT_RECONCILE_INTERVAL)
    timeout = _read_seconds(read_variable, CYCLE_TIMEOUT_VARIABLE, last.timeout, None)
    return Timing(DEFAULT_RECONCILE_INTERVAL if interval is None else interval, timeout)


def _read_seconds(
    read_variable: Callable[[str], str | None], name: str, last: float | None, default: float | None
) -> float | None:
    """A number of seconds: the Variable, its default when unset or no such number, `last` when it cannot be read."""
    try:
        text = read_variable(name)
    except Exception as error:  # noqa: BLE001 - whatever the database or a secrets backend raises
        log.warning("Airflow Variable %s cannot be read, keeping %s: %s", name, _shown(last), describe(error))
        return last
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and value > 0:
        return value
    log.warning(
        "Airflow Variable %s must be a number of seconds above 0, it is %r; using %s", name, text, _shown(default)
    )
    return default


def _shown(seconds: float | None) -> str:
    return "what follows from the interval" if seconds is None else f"{seconds:g} s"


#: What switches a flag on, and what switches it off.
_ON = frozenset({"1", "t", "true", "y", "yes", "on"})
_OFF = frozenset({"0", "f", "false", "n", "no", "off"})


def parse_flag(text: str | None, *, unset: bool) -> bool | None:
    """What a flag's text says: case, surrounding space and a trailing comment do not matter.

    Args:
        text: The option's text, None when nobody set it.
        unset: The answer then.

    Returns:
        None for a text in none of the spellings.
    """
    if text is None:
        return unset
    word = text.partition("#")[0].strip().lower()
    if word in _ON:
        return True
    return False if word in _OFF else None


def read_flag(section: str, option: str, default: bool) -> bool:
    """A flag of Airflow's configuration; a text nobody can read counts as off and is named in a WARNING.

    Off, because a flag here grants something, and what cannot be read must not grant it.
    """
    text = compat.config_option(section, option)
    flag = parse_flag(text, unset=default)
    if flag is None:
        log.warning("[%s] %s must be true or false, it is %r; it counts as false", section, option, text)
        return False
    return flag
