"""Counters of the watcher in Airflow's metrics; a metric that cannot be sent never costs the work it counts."""

from __future__ import annotations

import logging

from airflow_provider_rmq import compat
from airflow_provider_rmq.errors import describe

log = logging.getLogger(__name__)


def incr(name: str) -> None:
    """Increment a counter; never raises."""
    try:
        compat.count_metric(str(getattr(name, "value", name)))
    except Exception as error:  # noqa: BLE001 - whatever a metrics backend raises
        log.debug("metric %s could not be sent: %s", name, describe(error))
