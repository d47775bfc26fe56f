"""Reports the queues of the provider's own that nothing declares any more: once each, with the command to delete them.

A pending queue belongs to a DAG as long as one of its rows has a cooldown, a sub queue as long as the last trusted
listing declares its exchange; a disabled subscription keeps both, since its messages are meant to wait. Only what this
process provisioned is known here. `watcher.cli` finds the rest by asking the broker.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

from airflow_provider_rmq.watcher.orphan_tracker import OrphanTracker, OwnQueue

log = logging.getLogger(__name__)


@dataclass(slots=True)
class OrphanReports:
    """One warning for each orphan, and one more after it was declared again meanwhile."""

    tracker: OrphanTracker[OwnQueue] = field(default_factory=OrphanTracker)

    def report(self, provisioned: Iterable[OwnQueue], active: Iterable[OwnQueue]) -> None:
        """Compare what exists because of this process with what is wanted now."""
        self.tracker.mark_provisioned(provisioned)
        orphaned, restored = self.tracker.diff(active)
        for queue in sorted(orphaned):
            log.warning(
                "%s: nothing declares queue %s any more; it stays until somebody deletes it: "
                "rabbitmqadmin delete queue name=%s (or: airflow-rmq orphans --delete)",
                queue.conn_id,
                queue.queue_name,
                shlex.quote(queue.queue_name),
            )
        for queue in sorted(restored):
            log.info("%s: queue %s is declared again", queue.conn_id, queue.queue_name)
