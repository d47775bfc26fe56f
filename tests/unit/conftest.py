"""Settings of the unit tests."""

from hypothesis import HealthCheck, settings

# A busy machine is no finding: the first run builds Hypothesis' tables of characters, which takes seconds.
settings.register_profile("unit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unit")
