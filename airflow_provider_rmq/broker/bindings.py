"""Desired against actual bindings of a queue of ours. Pure; `management` reads them, `declaring` changes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider_rmq.broker.topology import Binding


@dataclass(frozen=True, slots=True)
class BindingDiff:
    """What to bind and what to unbind."""

    bind: tuple[Binding, ...]
    unbind: tuple[Binding, ...]

    def __bool__(self) -> bool:
        return bool(self.bind or self.unbind)


def diff_bindings(exchange: str, routing_keys: Iterable[str], actual: Iterable[Binding]) -> BindingDiff:
    """Compare: the queue wants exactly these keys of this exchange, and nothing of any other.

    Every queue is bound to the default exchange by its name, which nobody can change, and which counts as nothing. A
    binding with arguments is somebody else's and stays: the provider makes none, and the management API shows arguments
    as JSON, from which the broker's own types, and so the binding to undo, cannot be told.
    """
    wanted = {(exchange, key) for key in routing_keys}
    found = {
        (binding.exchange, binding.routing_key) for binding in actual if binding.exchange and not binding.arguments
    }
    return BindingDiff(bind=_bindings(wanted - found), unbind=_bindings(found - wanted))


def _bindings(pairs: Iterable[tuple[str, str]]) -> tuple[Binding, ...]:
    return tuple(Binding(exchange, routing_key) for exchange, routing_key in sorted(pairs))
