"""`incr`: a counter of Airflow's metrics that never disturbs who counts."""

from __future__ import annotations

import logging

from airflow_provider_rmq.compat import count_metric
from airflow_provider_rmq.messages.misses import is_power_of_ten

logger = logging.getLogger(__name__)

_failures = 0


def incr(name: str) -> None:
    """Add one to the counter `name`; a metrics backend that fails is logged at its 1st, 10th, 100th … failure."""
    global _failures  # noqa: PLW0603 - one backend a process, so one count of its failures
    try:
        count_metric(name)
    except Exception:  # a metric is never worth a message
        _failures += 1
        if is_power_of_ten(_failures, first=1):
            logger.warning("Metric %s could not be counted (failure %d)", name, _failures, exc_info=True)
