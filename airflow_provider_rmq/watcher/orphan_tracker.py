"""Which broker objects this process provisioned that nothing declares any more. Pure; `service.orphans` reports them.

Nobody deletes an orphan but a person: its messages may still be wanted. `airflow-rmq orphans` helps with it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)


class OwnQueue(NamedTuple):
    """A queue of the provider's own: a pending queue or a sub queue."""

    conn_id: str
    queue_name: str


@dataclass(slots=True)
class OrphanTracker(Generic[K]):
    """Remembers what was provisioned, and which of it has been reported as orphaned."""

    _provisioned: set[K] = field(default_factory=set)
    _orphaned: set[K] = field(default_factory=set)

    def mark_provisioned(self, ids: Iterable[K]) -> None:
        """These exist because of this process."""
        self._provisioned.update(ids)

    def diff(self, active: Iterable[K]) -> tuple[set[K], set[K]]:
        """Compare with what is declared now; each change is told once.

        Returns:
            Those that have become orphans, and those that were and are declared again.
        """
        orphaned = self._provisioned.difference(active)
        new, restored = orphaned - self._orphaned, self._orphaned - orphaned
        self._orphaned = orphaned
        return new, restored
