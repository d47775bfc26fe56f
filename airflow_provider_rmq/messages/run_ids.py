"""DAG run ids from message ids: deterministic, so that a redelivery finds the run it already produced.

The format is fixed by the releases before this one: a message delivered before an upgrade and redelivered after it
has to meet the same run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from datetime import datetime, timezone

from airflow_provider_rmq.messages.message import Message

#: Whether an installation allows a run id.
Accepts = Callable[[str], bool]

#: Characters; the width of Airflow's `dag_run.run_id` column.
MAX_LENGTH = 250
#: Characters of the readable part in front of `_` and the digest.
READABLE_LENGTH = 217
#: Hex digits of the SHA-256 digest that keeps shortened and cleaned ids apart.
DIGEST_LENGTH = 32

#: What Airflow's default `[scheduler] allowed_run_id_pattern` refuses (2.9 to 2.11).
_REFUSED = re.compile(r"[^A-Za-z0-9_.~:+-]")


def immediate_run_id(message: Message, now: datetime, accepts: Accepts | None = None) -> str:
    """`rmq__{queue}__{message_id}`, or with the moment of delivery where the message carries no id.

    Args:
        message: The message that starts the run.
        now: The present moment, aware.
        accepts: What the installation allows.
    """
    if message.message_id:
        return safe_run_id(f"rmq__{message.queue}__{message.message_id}", accepts)
    return safe_run_id(f"rmq__{message.queue}__{now.astimezone(timezone.utc):%Y%m%dT%H%M%S%f}", accepts)


def cooldown_run_id(dag_id: str, message_id: str, accepts: Accepts | None = None) -> str:
    """`rmq_cooldown__{dag_id}__{message_id}` for the marker of one cooldown window."""
    return safe_run_id(f"rmq_cooldown__{dag_id}__{message_id}", accepts)


def safe_run_id(raw: str, accepts: Accepts | None = None) -> str:
    """A run id Airflow accepts; ids that cleaning or cutting changed carry a digest of the original.

    Where the installation allows less than Airflow does, the id is the first of the plainer forms that it accepts,
    all of them made of the digest alone.
    """
    digest = hashlib.sha256(raw.encode("utf-8", errors="replace")).hexdigest()[:DIGEST_LENGTH]
    cleaned = _REFUSED.sub("_", raw)
    usual = raw if cleaned == raw and len(raw) <= MAX_LENGTH else f"{cleaned[:READABLE_LENGTH]}_{digest}"
    if accepts is None or accepts(usual):
        return usual
    return next((form for form in plain_forms(digest) if accepts(form)), usual)


def plain_forms(digest: str) -> tuple[str, ...]:
    """Run ids for installations with a pattern of their own, the most telling first."""
    return f"rmq__{digest}", f"rmq_{digest}", f"rmq-{digest}", f"rmq{digest}", digest


def immediate_run_id_prefix(queue_name: str) -> str:
    """What the ids of all runs that messages of a queue have started begin with."""
    return _prefix(f"rmq__{queue_name}__")


def cooldown_run_id_prefix(dag_id: str) -> str:
    """What the ids of all runs of a DAG's cooldown windows begin with."""
    return _prefix(f"rmq_cooldown__{dag_id}__")


def _prefix(raw: str) -> str:
    return _REFUSED.sub("_", raw)[:READABLE_LENGTH]
