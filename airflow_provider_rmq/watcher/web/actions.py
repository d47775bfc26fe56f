"""What a click on the Subscriptions page does: decide, write the rows, say what happened. Knows no web framework.

`subscription_form` checks the fields, `rows.editing` writes. Every function returns an `ActionResult`; the caller
draws the form again when it is not saved, and otherwise goes back to the list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_rmq.watcher.rows import editing
from airflow_provider_rmq.watcher.rows.page_rows import SubscriptionRow, subscription_rows
from airflow_provider_rmq.watcher.subscription import Source
from airflow_provider_rmq.watcher.subscription_form import CheckedForm, SubscriptionForm, check_form
from airflow_provider_rmq.watcher.web.shared_queues import shared_queues

#: Tells which of these DAGs Airflow knows as active.
KnownDags = Callable[[Iterable[str]], frozenset[str]]

GONE = "this subscription is no longer there"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionResult:
    """How a click ended.

    Args:
        saved: Whether the rows are as asked.
        done: What was done, in a sentence; empty when nothing was.
        warnings: What a person should know although it is saved.
        problem: Why nothing was done, where no field is to blame.
        errors: What is wrong with which field.
    """

    saved: bool
    done: str = ""
    warnings: tuple[str, ...] = ()
    problem: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)


def create(session: Any, form: SubscriptionForm, known_dags: KnownDags) -> ActionResult:
    """Store a subscription for each queue of the form."""
    return _save(session, (), form, known_dags)


def edit(session: Any, row: SubscriptionRow, form: SubscriptionForm, known_dags: KnownDags) -> ActionResult:
    """Change one subscription; of a declared one only `enabled`, its DAG file says the rest."""
    if row.source is Source.DAG_FILE:
        return _switch(session, [row], enabled=form.enabled)
    return _save(session, [row], form, known_dags)


def edit_group(
    session: Any, rows: Sequence[SubscriptionRow], form: SubscriptionForm, known_dags: KnownDags
) -> ActionResult:
    """Change all of a group that belongs to the UI; its declared rows follow `enabled` only."""
    own = [row for row in rows if row.source is Source.UI]
    declared = [row for row in rows if row.source is Source.DAG_FILE]
    if not own:
        return _switch(session, declared, enabled=form.enabled)
    result = _save(session, own, form, known_dags)
    if result.saved and declared:
        editing.set_enabled(session, [row.id for row in declared], enabled=form.enabled)
    return result


def toggle(session: Any, rows: Sequence[SubscriptionRow]) -> ActionResult:
    """Switch one subscription over; a group goes off when all of it is on, else on."""
    if not rows:
        return ActionResult(saved=False, problem=GONE)
    return _switch(session, rows, enabled=not all(row.enabled for row in rows))


def delete(session: Any, rows: Sequence[SubscriptionRow]) -> ActionResult:
    """Delete subscriptions of the UI; with a declared one among them nothing is deleted."""
    if not rows:
        return ActionResult(saved=False, problem=GONE)
    declared = [row for row in rows if row.source is Source.DAG_FILE]
    if declared:
        return ActionResult(
            saved=False,
            problem=f"subscription to {declared[0].key.queue_name} is declared in a DAG file; remove the decorator "
            "there, or switch the subscription off",
        )
    editing.delete_ui_rows(session, [row.id for row in rows])
    return ActionResult(saved=True, done=f"deleted: {_names(rows)}")


def _save(session: Any, old: Sequence[SubscriptionRow], form: SubscriptionForm, known_dags: KnownDags) -> ActionResult:
    checked = _with_known_dag(check_form(form), form, {row.key.dag_id for row in old}, known_dags)
    if checked.errors:
        return ActionResult(saved=False, errors=checked.errors)
    try:
        rows = editing.replace_ui_rows(session, old, checked.declarations, enabled=form.enabled)
    except editing.AlreadySubscribed as error:
        return ActionResult(saved=False, errors={"queue_name": str(error)})
    return ActionResult(
        saved=True, done=f"saved: {_names(rows)}", warnings=_sharing(session, rows) if form.enabled else ()
    )


def _with_known_dag(
    checked: CheckedForm, form: SubscriptionForm, before: set[str], known_dags: KnownDags
) -> CheckedForm:
    """A row may outlive its DAG and still be edited; a new name must be one that Airflow knows."""
    if "dag_id" in checked.errors or form.dag_id in before or form.dag_id in known_dags([form.dag_id]):
        return checked
    reason = f"Airflow knows no active DAG {form.dag_id!r}; a message would be acknowledged and start nothing"
    return CheckedForm(errors={**checked.errors, "dag_id": reason})


def _switch(session: Any, rows: Sequence[SubscriptionRow], *, enabled: bool) -> ActionResult:
    if not editing.set_enabled(session, [row.id for row in rows], enabled=enabled):
        return ActionResult(saved=False, problem=GONE)
    return ActionResult(
        saved=True,
        done=f"switched {'on' if enabled else 'off'}: {_names(rows)}",
        warnings=_sharing(session, rows) if enabled else (),
    )


def _sharing(session: Any, saved: Iterable[SubscriptionRow]) -> tuple[str, ...]:
    """Said after the save: asking before it would draw the form again from the stored row and lose what was typed."""
    ids = {row.id for row in saved}
    shared = shared_queues(subscription_rows(session))
    return tuple(shared[row_id].sentence for row_id in sorted(ids) if row_id in shared)


def _names(rows: Iterable[SubscriptionRow]) -> str:
    return "; ".join(str(row.key) for row in rows)
