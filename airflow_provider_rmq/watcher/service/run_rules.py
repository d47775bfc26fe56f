"""What Airflow's configuration says about the DAG runs that messages start; read once, at the watcher's start."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from airflow_provider_rmq.messages.conf_bounds import DEFAULT_BODY_BYTES, ConfBounds
from airflow_provider_rmq.messages.run_ids import DIGEST_LENGTH, Accepts, plain_forms

log = logging.getLogger(__name__)

#: `[rmq_watcher]`: bytes of a message's body that reach a DAG.
MAX_CONF_BODY_BYTES = "max_conf_body_bytes"
#: A run id of the usual form.
_USUAL = "rmq__orders__20260301T120000000000"

ConfigOption = Callable[[str, str], "str | None"]


@dataclass(frozen=True, slots=True)
class RunRules:
    """Bounds of a conf, and which run ids are allowed; None allows all that Airflow allows."""

    bounds: ConfBounds = field(default_factory=ConfBounds)
    accepts: Accepts | None = None


def read_run_rules(config_option: ConfigOption) -> RunRules:
    """The rules of this installation; what is wrong with them is logged.

    Args:
        config_option: Looks up section and option of Airflow's configuration.
    """
    body = _body_bytes(config_option("rmq_watcher", MAX_CONF_BODY_BYTES))
    return RunRules(ConfBounds(body=body), _accepts(config_option("scheduler", "allowed_run_id_pattern")))


def _body_bytes(text: str | None) -> int:
    if text is None or not text.strip():
        return DEFAULT_BODY_BYTES
    try:
        size = int(text)
    except ValueError:
        size = 0
    if size > 0:
        return size
    log.warning(
        "[rmq_watcher] %s must be a whole number of bytes above 0, it is %r; using %d",
        MAX_CONF_BODY_BYTES,
        text,
        DEFAULT_BODY_BYTES,
    )
    return DEFAULT_BODY_BYTES


def _accepts(pattern: str | None) -> Accepts | None:
    """Airflow strips the pattern and matches it at the start of an id; it is an RE2, so Python may not know it."""
    if pattern is None:
        return None
    try:
        compiled = re.compile(pattern.strip())
    except re.error as error:
        log.warning("[scheduler] allowed_run_id_pattern %r cannot be judged here: %s", pattern, error)
        return None
    if not pattern.strip():
        log.error("[scheduler] allowed_run_id_pattern is empty and allows no run id of the watcher's: no DAG starts")
        return None

    def accepts(run_id: str) -> bool:
        return compiled.match(run_id) is not None

    if accepts(_USUAL):
        return accepts
    plain = next((form for form in plain_forms("0123456789abcdef" * (DIGEST_LENGTH // 16)) if accepts(form)), None)
    if plain is None:
        log.error(
            "[scheduler] allowed_run_id_pattern %r allows no run id that the watcher can make, as %s or %s: no message "
            "will start a DAG",
            pattern,
            _USUAL,
            ", ".join(plain_forms("<32 hex digits>")),
        )
    else:
        log.warning(
            "[scheduler] allowed_run_id_pattern %r does not allow run ids as %s; they are digests instead, as %s",
            pattern,
            _USUAL,
            plain,
        )
    return accepts
