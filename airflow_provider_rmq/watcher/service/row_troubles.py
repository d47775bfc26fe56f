"""What is wrong with a subscription although its own consumer listens; its row says `error` then.

A consumer tells its own status and knows nothing of the rest its DAG depends on: the fire queue, whose consumer has no
row of its own, and broker objects that exist with other properties. Rows pass through here on their way to the writer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from airflow_provider_rmq.watcher.states import Row, SubscriptionStatus
from airflow_provider_rmq.watcher.subscription import Subscription


@dataclass(slots=True)
class RowTroubles:
    """Troubles by kind and DAG, over the rows that the consumers report."""

    write: Callable[[int, Row], None]
    _troubles: dict[tuple[str, str], str] = field(default_factory=dict)
    _reported: dict[int, tuple[str, Row]] = field(default_factory=dict)

    def report(self, subscription: Subscription, row: Row) -> None:
        """Take a consumer's row and hand it on, with what else is wrong."""
        self._reported[subscription.id] = (subscription.key.dag_id, row)
        self.write(subscription.id, self._shown(subscription.key.dag_id, row))

    def forget(self, subscription_id: int) -> None:
        """The subscription is no longer this process's."""
        self._reported.pop(subscription_id, None)

    def set(self, kind: str, dag_id: str, reason: str) -> None:
        """Something is wrong with all subscriptions of a DAG."""
        if self._troubles.get((kind, dag_id)) != reason:
            self._troubles[kind, dag_id] = reason
            self._repeat(dag_id)

    def clear(self, kind: str, dag_id: str) -> None:
        """It is all right again."""
        if self._troubles.pop((kind, dag_id), None) is not None:
            self._repeat(dag_id)

    def replace_all(self, kind: str, reasons: dict[str, str]) -> None:
        """The troubles of one kind are exactly these, by DAG."""
        for known_kind, dag_id in list(self._troubles):
            if known_kind == kind and dag_id not in reasons:
                self.clear(kind, dag_id)
        for dag_id, reason in reasons.items():
            self.set(kind, dag_id, reason)

    def _repeat(self, dag_id: str) -> None:
        for subscription_id, (owner, row) in self._reported.items():
            if owner == dag_id:
                self.write(subscription_id, self._shown(owner, row))

    def _shown(self, dag_id: str, row: Row) -> Row:
        """A consumer that does not listen has a reason of its own, which comes first."""
        found = [reason for (_, owner), reason in sorted(self._troubles.items()) if owner == dag_id]
        if row.status is not SubscriptionStatus.LISTENING or not found:
            return row
        return Row(SubscriptionStatus.ERROR, "; ".join(found))
