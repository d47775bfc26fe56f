"""How much of a message goes into a DAG run's conf: a row of a database, printed on pages, is no place for megabytes.

What is cut is told beside it: `truncated` is the size of the whole body in bytes, `truncated_headers` are the names of
the headers that were left out, largest first. Neither key is there when nothing was cut.
"""

from __future__ import annotations

import base64
import codecs
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_rmq.messages.json_values import storable_text

#: Bytes of a body that reach a DAG.
DEFAULT_BODY_BYTES = 256 * 1024
#: Bytes of the headers as JSON; a header table fits an AMQP frame, 128 KiB by default, but its JSON may be longer.
HEADER_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class ConfBounds:
    """Sizes in bytes."""

    body: int = DEFAULT_BODY_BYTES
    headers: int = HEADER_BYTES

    def of_body(self, plain: bytes, *, body: bytes, lossless: bool) -> dict[str, Any]:
        """The keys of a conf that tell the body: `body`, if need be `body_base64`, if need be `truncated`.

        Args:
            plain: The body without its content encoding.
            body: The body as it was sent.
            lossless: Whether text can hold it.
        """
        kept = plain[: self.body]
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(kept, final=len(kept) == len(plain))
        whole = storable_text(text.removeprefix("\ufeff"))
        shown = _cut(whole, self.body)
        told: dict[str, Any] = {"body": shown}
        if not lossless:
            told["body_base64"] = base64.b64encode(body[: self.body]).decode("ascii")
        if len(kept) < len(plain) or shown != whole or (not lossless and len(body) > self.body):
            told["truncated"] = len(plain)
        return told

    def of_headers(self, headers: Mapping[str, Any]) -> dict[str, Any]:
        """The keys of a conf that tell the headers, which are JSON values already."""
        sizes = {name: len(json.dumps({name: value}).encode()) for name, value in headers.items()}
        left, kept = self.headers, set()
        for name in sorted(sizes, key=lambda name: (sizes[name], name)):
            left -= sizes[name]
            if left >= 0:
                kept.add(name)
        told: dict[str, Any] = {"headers": {name: value for name, value in headers.items() if name in kept}}
        if len(kept) < len(sizes):
            dropped = sorted(sizes.keys() - kept, key=lambda name: (-sizes[name], name))
            told["truncated_headers"] = dropped
        return told


def _cut(text: str, size: int) -> str:
    """As much of a text as fits in so many bytes of UTF-8, without half a character."""
    encoded = text.encode("utf-8")
    return text if len(encoded) <= size else encoded[:size].decode("utf-8", errors="ignore")
