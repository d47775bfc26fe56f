"""Names and defaults of what an installation can tune about the watcher, and the arithmetic on it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from enum import Enum

from airflow_provider_rmq import compat

log = logging.getLogger(__name__)

#: Airflow Variable: seconds between two cycles.
RECONCILE_INTERVAL_VARIABLE = "rmq_watcher_reconcile_interval"
#: Seconds between two cycles where the Variable is not set.
DEFAULT_RECONCILE_INTERVAL = 60
#: Seconds one blocking step of a cycle may take.
STEP_TIMEOUT = 60.0
#: Seconds between a failed cycle and the next attempt.
RESTART_PAUSE = 30.0
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
    CYCLE_STEP_TIMED_OUT = "rmq_watcher.cycle_step_timed_out"
    CYCLE_STEP_SKIPPED = "rmq_watcher.cycle_step_skipped"
    PROCESS_RESTARTED = "rmq_watcher.process_restarted"


def reconcile_interval(read_variable: Callable[[str], str | None], last: float) -> float:
    """Seconds between two cycles: the Variable, its default when unset, the last value when it cannot be read.

    Args:
        read_variable: Looks an Airflow Variable up; blocking.
        last: The interval in force.
    """
    try:
        text = read_variable(RECONCILE_INTERVAL_VARIABLE)
    except Exception as error:  # noqa: BLE001 - whatever the database or a secrets backend raises
        log.warning("Airflow Variable %s cannot be read, keeping %g s: %s", RECONCILE_INTERVAL_VARIABLE, last, error)
        return last
    if text is None:
        return DEFAULT_RECONCILE_INTERVAL
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and value > 0:
        return value
    log.warning(
        "Airflow Variable %s must be a number of seconds above 0, it is %r; using %d",
        RECONCILE_INTERVAL_VARIABLE,
        text,
        DEFAULT_RECONCILE_INTERVAL,
    )
    return DEFAULT_RECONCILE_INTERVAL


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


def stale_after(interval: float, budget: float) -> float:
    """Seconds a stamp may be old while the watcher does what it is configured to do.

    The stamp is written at the end of a cycle, the loop waits an interval, and the next cycle may take its budget.
    """
    return interval + budget


def default_cycle_timeout(interval: float) -> float:
    """Seconds one cycle may take where the Variable does not say: three intervals, at least five minutes."""
    return max(interval * 3, 300.0)
