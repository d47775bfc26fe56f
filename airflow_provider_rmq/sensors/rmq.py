"""`RMQSensor`: waits for a message that matches, on a worker."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_rmq.broker.taking_verbs import check_count
from airflow_provider_rmq.compat import BaseSensorOperator, PokeReturnValue
from airflow_provider_rmq.errors import ConfigurationError, QueueMissing
from airflow_provider_rmq.hooks.rmq import RMQHook
from airflow_provider_rmq.messages.filters import FilterCallable, MessageFilter
from airflow_provider_rmq.messages.judge import MessageJudge, check_ack_unmatched
from airflow_provider_rmq.messages.misses import FilterMissState

logger = logging.getLogger("airflow.task")

#: How a trigger gets its messages; the other two values of `mode` are the base sensor's.
TRIGGER_MODES = ("pull", "push")
POKE_MODES = ("poke", "reschedule")
