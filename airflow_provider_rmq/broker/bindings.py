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
    binding with arguments is none of ours.
    """
    wanted = {Binding(exchange, key) for key in routing_keys}
    found = {_identity(binding): binding for binding in actual if binding.exchange}
    kept = {binding for binding in wanted if _identity(binding) in found}
    return BindingDiff(
        bind=tuple(sorted(wanted - kept, key=_order)),
        unbind=tuple(sorted((item for item in found.values() if item not in kept), key=_order)),
    )


def _identity(binding: Binding) -> tuple[str, str, str]:
    return binding.exchange, binding.routing_key, repr(sorted(binding.arguments.items()))


def _order(binding: Binding) -> tuple[str, str]:
    return binding.exchange, binding.routing_key
