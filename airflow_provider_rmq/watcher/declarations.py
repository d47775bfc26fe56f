"""The seam between "what is declared" and "what the database holds".

`rows.sync` takes its declarations from a `DeclarationSource` and knows nothing of files; `dagfiles.scanner` is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from airflow_provider_rmq.watcher.subscription import Declaration


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """Something about a declaration that could not be read, and what follows from it."""

    path: str
    line: int
    dag_id: str | None
    queue: str | None
    parameter: str
    reason: str

    def __str__(self) -> str:
        """One sentence for the log."""
        return (
            f"{self.path}:{self.line}: rmq_trigger of DAG {self.dag_id or '(unknown)'}, "
            f"queue {self.queue or '(unknown)'}: {self.parameter} {self.reason}; this subscription is not registered"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Everything that is declared right now; with `distrust` set it says nothing about what is not in it."""

    declarations: frozenset[Declaration] = frozenset()
    complaints: tuple[Complaint, ...] = ()
    distrust: str | None = None


class DeclarationSource(Protocol):
    """Where declarations come from."""

    def read(self) -> Listing:
        """List what is declared; blocking, never raises for what it reads."""
        ...
