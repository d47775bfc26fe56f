"""What neither client library can decode, read by hand, so that one message never costs a whole connection.

Headers no rule can read become `UndecodableHeaders`: the message can be told from others and left in its queue.
Names in a delivery that are not UTF-8 (exchange, routing key) get U+FFFD where a byte is none, as bodies do.
`pika_connection` and `aio_connection` put this in their library's way; `raise_if_undecodable` is for whoever makes a
`Message`.
"""

from __future__ import annotations

import struct
from typing import Any

from airflow_provider_rmq.broker.field_tables import MAX_SHORT_STRING
from airflow_provider_rmq.errors import UndecodableMessage

_METHOD = struct.Struct(">HH")
#: Class and method number -> what stands in front of the names, as lengths; None is a name.
_LAYOUTS: dict[tuple[int, int], tuple[int | None, ...]] = {
    (60, 50): (2, None, None, None),  # basic.return: reply-code, reply-text, exchange, routing-key
    (60, 60): (None, 9, None, None),  # basic.deliver: consumer-tag, delivery-tag and redelivered, exchange, routing-key
    (60, 71): (9, None, None),  # basic.get-ok: delivery-tag and redelivered, exchange, routing-key, message-count
}


class UndecodableHeaders(dict[Any, Any]):
    """Stands for a header table that no rule can read; empty, with the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason

    def __bool__(self) -> bool:
        """True: `headers or {}`, as aio-pika writes it, must not lose the reason."""
        return True


def undecodable_reason(headers: object) -> str | None:
    """Why a message's properties could not be read, None where they could."""
    return headers.reason if isinstance(headers, UndecodableHeaders) else None


def raise_if_undecodable(headers: object, queue_name: str) -> None:
    """Refuse a message whose headers could not be read: a filter would judge it by what it does not say.

    Raises:
        UndecodableMessage: Names the queue and the reason; the message is unsettled and stays in its queue.
    """
    reason = undecodable_reason(headers)
    if reason is not None:
        raise UndecodableMessage(f"queue {queue_name!r}: the header cannot be decoded, the message stays: {reason}")


def readable_method(payload: bytes) -> bytes:
    """A method frame's payload; where it carries a message its names are UTF-8. The same object if nothing changes."""
    layout = _LAYOUTS.get(_METHOD.unpack_from(payload)) if len(payload) >= _METHOD.size else None
    if layout is None or payload.isascii():
        return payload
    pieces = [payload[: _METHOD.size]]
    position = _METHOD.size
    for skipped in layout:
        start = position
        if skipped is not None:
            position += skipped
            pieces.append(payload[start:position])
            continue
        position += 1 + payload[position]
        name = _readable_name(payload[start + 1 : position])
        pieces += [bytes([len(name)]), name]
    pieces.append(payload[position:])
    rewritten = b"".join(pieces)
    return payload if rewritten == payload else rewritten


def _readable_name(name: bytes) -> bytes:
    """UTF-8, at most as long as a name may be."""
    text = name.decode("utf-8", errors="replace").encode("utf-8")
    return (
        text
        if len(text) <= MAX_SHORT_STRING
        else name.decode("ascii", errors="replace").replace("\ufffd", "?").encode()
    )
