"""The form of a subscription or a group as a value: what stands in its fields, what may be changed, what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_rmq.watcher.rows.page_rows import SubscriptionRow
from airflow_provider_rmq.watcher.subscription import Source
from airflow_provider_rmq.watcher.subscription_form import SubscriptionForm, filter_text


@dataclass(frozen=True, slots=True, kw_only=True)
class FormPage:
    """All that the form shows.

    Args:
        title: What is edited.
        form: What stands in the fields.
        many_queues: Whether more than one queue may be named.
        only_enabled: Whether a DAG file owns the rest, which is shown and cannot be changed.
        declared_queues: Queues of the group that a DAG file declares; they follow `enabled` only.
        mixed_ack_unmatched: Whether the group's subscriptions disagree on it; the box is then drawn off.
        errors: What is wrong, by field.
    """

    title: str
    form: SubscriptionForm
    many_queues: bool = True
    only_enabled: bool = False
    declared_queues: tuple[str, ...] = ()
    mixed_ack_unmatched: bool = False
    errors: Mapping[str, str] = field(default_factory=dict)

    def redrawn(self, form: SubscriptionForm, errors: Mapping[str, str]) -> FormPage:
        """The same form with what was submitted in its fields, never with what is stored."""
        return replace(self, form=form, errors=errors)


def empty_form() -> FormPage:
    """The form of a subscription that is to be made."""
    return FormPage(title="New subscription", form=SubscriptionForm())


def form_of_row(row: SubscriptionRow) -> FormPage:
    """The form of one subscription."""
    return FormPage(
        title=f"Subscription {row.id}",
        form=_form([row], ack_unmatched=row.ack_unmatched),
        many_queues=False,
        only_enabled=row.source is Source.DAG_FILE,
    )


def form_of_group(rows: Sequence[SubscriptionRow]) -> FormPage:
    """The form of a group, which says one thing for all its subscriptions.

    The box for `ack_unmatched` is on only when all agree on it: a save that changes the cooldown must not begin to
    delete messages of a queue that kept them.
    """
    own = [row for row in rows if row.source is Source.UI]
    declared = [row for row in rows if row.source is Source.DAG_FILE]
    edited = own or declared
    answers = {row.ack_unmatched for row in edited}
    return FormPage(
        title=f"Subscriptions of {edited[0].key.dag_id}",
        form=_form(edited, ack_unmatched=answers == {True}),
        only_enabled=not own,
        declared_queues=tuple(row.key.queue_name for row in declared) if own else (),
        mixed_ack_unmatched=len(answers) > 1,
    )


def _form(rows: Sequence[SubscriptionRow], *, ack_unmatched: bool) -> SubscriptionForm:
    first = rows[0]
    return SubscriptionForm(
        dag_id=first.key.dag_id,
        queue_names=tuple(row.key.queue_name for row in rows),
        conn_id=first.key.conn_id,
        cooldown=str(first.cooldown or ""),
        filter_data=filter_text(first.filter_data),
        enabled=all(row.enabled for row in rows),
        ack_unmatched=ack_unmatched,
    )
