"""What declarations say and rows do not store: exchanges with their routing keys, and `keep_payload`.

Both come from the last trusted listing. A key that is missing from it has no exchange any more, so nothing is
provisioned for it while its row lives on; `keep_payload` stays with the row, whose consumer carries on as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from airflow_provider_rmq.watcher.subscription import Declaration, ExchangeBinding, Subscription, SubscriptionKey


@dataclass(slots=True)
class DeclaredExtras:
    """Remembers the last trusted listing's extras, by key."""

    exchanges: dict[SubscriptionKey, ExchangeBinding] = field(default_factory=dict)
    _keep_payload: set[SubscriptionKey] = field(default_factory=set)

    def learn(self, declarations: Iterable[Declaration]) -> None:
        """Take over a trusted listing."""
        self.exchanges = {}
        for declaration in declarations:
            if declaration.exchange is not None:
                self.exchanges[declaration.key] = declaration.exchange
            if declaration.keep_payload:
                self._keep_payload.add(declaration.key)
            else:
                self._keep_payload.discard(declaration.key)

    def applied(self, subscriptions: Iterable[Subscription]) -> tuple[Subscription, ...]:
        """The subscriptions with what their declarations add."""
        return tuple(
            replace(item, keep_payload=bool(item.cooldown) and item.key in self._keep_payload) for item in subscriptions
        )
