"""The seam between "what is declared" and "what the database holds".

`rows.sync` takes its declarations from a `DeclarationSource` and knows nothing of files; `dagfiles.scanner` is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from airflow_provider_rmq.watcher.subscription import Declaration


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """Something about a declaration that could not be read, and what follows from it.

    Args:
        path: The file, or whatever else declares.
        line: Where in it; 0 where it is about the whole.
        dag_id: None where it cannot be told.
        queue: None where it cannot be told.
        parameter: Of the declaration; None where it is about the whole file.
        reason: A predicate of `parameter`.
        consequence: What follows.
    """

    path: str
    reason: str
    line: int = 0
    dag_id: str | None = None
    queue: str | None = None
    parameter: str | None = None
    consequence: str = "this subscription is not registered"

    def __str__(self) -> str:
        """One sentence for the log and the page."""
        where = f"{self.path}:{self.line}" if self.line else self.path
        if self.parameter is None:
            return f"{where}: the file {self.reason}; {self.consequence}"
        return (
            f"{where}: rmq_trigger of DAG {self.dag_id or '(unknown)'}, queue {self.queue or '(unknown)'}: "
            f"{self.parameter} {self.reason}; {self.consequence}"
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
