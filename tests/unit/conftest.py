"""Settings of the unit tests."""

import os
import tempfile

from hypothesis import HealthCheck, settings

# Before anything imports Airflow: a home of its own, and without its deprecated defaults, which warn at import.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-unit-"))
os.environ.setdefault("AIRFLOW__METRICS__TIMER_UNIT_CONSISTENCY", "True")
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")

# A busy machine is no finding: the first run builds Hypothesis' tables of characters, which takes seconds.
settings.register_profile("unit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unit")
