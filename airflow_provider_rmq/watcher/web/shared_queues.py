"""Which enabled subscriptions listen to the same queue of the same Airflow connection, and what that costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider_rmq.watcher.rows.page_rows import SubscriptionRow


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedQueue:
    """A queue that is shared, as seen from one subscription.

    Args:
        queue_name: The queue.
        others: The DAGs of the other subscriptions.
        deletes: Whether one of all these acknowledges what its filter rejects.
    """

    queue_name: str
    others: tuple[str, ...]
    deletes: bool

    @property
    def sentence(self) -> str:
        """What a person should know."""
        split = (
            f"queue {self.queue_name} is also consumed for {', '.join(self.others)}: the broker splits its messages "
            "between them, and each message reaches one of them only"
        )
        if not self.deletes:
            return split
        return (
            f"{split}; one of them acknowledges what its filter rejects, so a message meant for the other is deleted "
            "when it lands there, and the other still says listening"
        )


def shared_queues(rows: Iterable[SubscriptionRow]) -> dict[int, SharedQueue]:
    """Shared queues by subscription id; a disabled subscription has no consumer and shares nothing."""
    by_queue: dict[tuple[str, str], list[SubscriptionRow]] = {}
    for row in rows:
        if row.enabled:
            by_queue.setdefault((row.key.conn_id, row.key.queue_name), []).append(row)
    return {
        row.id: SharedQueue(
            queue_name=row.key.queue_name,
            others=tuple(other.key.dag_id for other in together if other.id != row.id),
            deletes=any(other.ack_unmatched for other in together),
        )
        for together in by_queue.values()
        if len(together) > 1
        for row in together
    }
