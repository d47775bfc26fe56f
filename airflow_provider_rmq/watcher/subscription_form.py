"""From form fields to a subscription: what a person typed, checked with the decorator's own rules, errors by field.

Pure; `web.actions` stores what comes out and knows about the other rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_rmq.errors import ConfigurationError
from airflow_provider_rmq.watcher.subscription import Declaration
from airflow_provider_rmq.watcher.subscription_builder import DEFAULT_CONN_ID, build_declarations

#: The value a browser sends for a ticked box.
TICKED = "on"


def parse_cooldown(text: str) -> int:
    """Seconds from a form field; empty is 0.

    Raises:
        ConfigurationError: Not a whole number of 0 or more; also a `ValueError`.
    """
    stripped = text.strip()
    if not stripped:
        return 0
    if not stripped.isascii() or not stripped.isdecimal():
        raise ConfigurationError(f"cooldown must be a whole number of seconds, 0 or more; {text!r} was given")
    return int(stripped)


def parse_filter_data(text: str) -> dict[str, Any]:
    """A filter from a form field; empty is no filter.

    Raises:
        ConfigurationError: Not a JSON object; also a `ValueError`.
    """
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"filter_data must be JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError('filter_data must be a JSON object, for example {"filter_headers": {"type": "order"}}')
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionForm:
    """The fields as they were submitted, to be drawn again unchanged; `queue_names` is never empty."""

    dag_id: str = ""
    queue_names: tuple[str, ...] = ("",)
    conn_id: str = DEFAULT_CONN_ID
    cooldown: str = ""
    filter_data: str = ""
    enabled: bool = True
    ack_unmatched: bool = False

    @classmethod
    def submitted(cls, values_of: Callable[[str], list[str]]) -> SubscriptionForm:
        """Take the fields of a request.

        Args:
            values_of: All values submitted under a field's name, as every web framework's form offers them.
        """

        def one(name: str) -> str:
            values = values_of(name)
            return values[-1] if values else ""

        return cls(
            dag_id=one("dag_id").strip(),
            queue_names=tuple(name for name in values_of("queue_name") if name) or ("",),
            conn_id=one("conn_id").strip() or DEFAULT_CONN_ID,
            cooldown=one("cooldown"),
            filter_data=one("filter_data"),
            enabled=one("enabled") == TICKED,
            ack_unmatched=one("ack_unmatched") == TICKED,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedForm:
    """What the fields say: one declaration a queue, or the errors by field's name."""

    declarations: tuple[Declaration, ...] = ()
    errors: Mapping[str, str] = field(default_factory=dict)


def check_form(form: SubscriptionForm) -> CheckedForm:
    """Check every field; all errors at once, so that one round trip is enough."""
    check = _FieldChecks()
    cooldown = check.parsed("cooldown", lambda: parse_cooldown(form.cooldown), 0)
    filter_data = check.parsed("filter_data", lambda: parse_filter_data(form.filter_data), {})
    if form.dag_id:
        check.rules("dag_id", dag_id=form.dag_id)
    else:
        check.errors["dag_id"] = "the DAG to start must be named"
    if any(form.queue_names):
        check.rules("queue_name", queues=list(form.queue_names))
    else:
        check.errors["queue_name"] = "at least one queue must be named"
    check.rules("conn_id", conn_id=form.conn_id)
    check.rules("cooldown", cooldown=cooldown)
    check.rules("filter_data", filter_data=filter_data)
    everything = check.rules(
        "cooldown",
        dag_id=form.dag_id,
        queues=list(form.queue_names),
        conn_id=form.conn_id,
        cooldown=cooldown,
        filter_data=filter_data,
        ack_unmatched=form.ack_unmatched,
    )
    return CheckedForm(declarations=() if check.errors else everything, errors=check.errors)


@dataclass(slots=True)
class _FieldChecks:
    """Asks the builder about one field at a time, with harmless values for the others."""

    errors: dict[str, str] = field(default_factory=dict)

    def parsed(self, name: str, parse: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return parse()
        except ConfigurationError as error:
            self.errors[name] = str(error)
            return otherwise

    def rules(self, name: str, **arguments: Any) -> tuple[Declaration, ...]:
        """The declarations, none when the field (or an earlier one) is wrong."""
        harmless: dict[str, Any] = {"dag_id": "d", "queues": ["q"]}
        try:
            return tuple(build_declarations(**(harmless | arguments)))
        except ConfigurationError as error:
            if name not in self.errors and (len(arguments) == 1 or not self.errors):
                self.errors[name] = str(error)
            return ()


def filter_text(filter_data: Mapping[str, Any] | None) -> str:
    """A stored filter as it stands in the field."""
    return json.dumps(filter_data, ensure_ascii=False, indent=2) if filter_data else ""
