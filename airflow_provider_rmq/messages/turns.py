"""How often one message has come and gone, where its broker does not say: classic queues count nothing.

A message is known by its id, or by a digest of its body where it has none. Memory is bounded: of the messages that were
seen longest ago the count is forgotten, and such a message has all its turns again.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field

from airflow_provider_rmq.messages.message import Message

#: Turns after which a message that cannot be used is given up.
MOST_TURNS = 20
#: Messages whose turns are remembered.
MOST_MESSAGES = 1000


def identity_of(message: Message) -> str:
    """What stays the same over the deliveries of one message."""
    if message.message_id:
        return f"id {message.message_id}"
    return f"body {hashlib.sha256(message.body).hexdigest()[:32]}"


@dataclass(slots=True)
class Turns:
    """Counts the turns of messages that did not come to an end."""

    most: int = MOST_TURNS
    _counts: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def taken(self, identity: str) -> int:
        """Turns this message has taken so far."""
        return self._counts.get(identity, 0)

    def is_last(self, identity: str) -> bool:
        """Whether the turn it takes now is its last."""
        return self.taken(identity) + 1 >= self.most

    def take(self, identity: str) -> int:
        """Count one more and say how many that makes."""
        count = self._counts[identity] = self._counts.pop(identity, 0) + 1
        if len(self._counts) > MOST_MESSAGES:
            self._counts.popitem(last=False)
        return count

    def end(self, identity: str) -> None:
        """The message takes no more turns."""
        self._counts.pop(identity, None)
