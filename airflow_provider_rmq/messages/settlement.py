"""The settlement policy: from a verdict to the answer the broker gets. Pure; sending it is `broker`'s part.

| verdict | ack_unmatched=False | ack_unmatched=True |
|---|---|---|
| MATCH | ACK | ACK |
| MISS | REQUEUE | ACK |
| ERROR | REQUEUE | REQUEUE |
| ERROR, its turns exhausted | DEAD_LETTER | DEAD_LETTER |

The table is the whole policy. An ERROR was never read, so nothing may acknowledge it; turns are counted only where the
owner asks for an end of them (`turns`).
"""

from __future__ import annotations

from enum import Enum


class FilterVerdict(Enum):
    """What a filter says of a message."""

    MATCH = "match"
    MISS = "miss"
    ERROR = "error"


class Settlement(Enum):
    """The frame that answers a delivery, in RabbitMQ's words."""

    ACK = "ack"
    REQUEUE = "requeue"
    DEAD_LETTER = "dead_letter"


def settlement_for(verdict: FilterVerdict, *, ack_unmatched: bool, exhausted: bool = False) -> Settlement:
    """The only place where a verdict becomes a settlement."""
    if verdict is FilterVerdict.MATCH:
        return Settlement.ACK
    if verdict is FilterVerdict.ERROR and exhausted:
        return Settlement.DEAD_LETTER
    if verdict is FilterVerdict.MISS and ack_unmatched:
        return Settlement.ACK
    return Settlement.REQUEUE
