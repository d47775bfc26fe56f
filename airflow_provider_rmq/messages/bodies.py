"""Reading a body: undoing `content_encoding`, decoding UTF-8, parsing JSON. `message` and `filters` use it.

Two readers with two tolerances. `lenient_text` serves XCom, conf and filter callables and never raises; `json_document`
serves `body.*` conditions and raises rather than guess, so that an unreadable body is an ERROR and never a miss.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, NoReturn

#: Bytes a compressed body may grow to; RabbitMQ 4.0 refuses larger messages by default (`max_message_size`).
MAX_INFLATED_BYTES = 16 * 1024 * 1024

_GZIP_MAGIC = b"\x1f\x8b"
#: Value for zlib's `wbits`: find out by the header whether it is gzip or zlib.
_DETECT_HEADER = 32 + zlib.MAX_WBITS


class UnreadableBody(ValueError):
    """The body is not what its condition needs; the text says why."""


def lenient_text(body: bytes, content_encoding: str | None) -> str:
    """The body as text: inflated where that works, every undecodable byte as U+FFFD, a leading byte order mark gone."""
    return plain_body(body, content_encoding).decode("utf-8", errors="replace").removeprefix("\ufeff")


def plain_body(body: bytes, content_encoding: str | None) -> bytes:
    """The body inflated where that works, as it is where not."""
    try:
        return inflated(body, content_encoding)
    except UnreadableBody:
        return body


def is_lossless(body: bytes, content_encoding: str | None) -> bool:
    """Whether `lenient_text` keeps everything the body says."""
    try:
        text = inflated(body, content_encoding).decode("utf-8")
    except (UnreadableBody, UnicodeDecodeError):
        return False
    return "\x00" not in text


def json_document(body: bytes | str, content_encoding: str | None) -> Any:
    """The body as JSON values, strictly: UTF-8, no NaN or Infinity; of equal keys the last one counts.

    Raises:
        UnreadableBody: The compressed form is broken or too large.
        ValueError: It is no JSON, or holds a number of more digits than Python converts.
        RecursionError: It is nested too deeply.
    """
    text = body if isinstance(body, str) else inflated(body, content_encoding).decode("utf-8")
    return json.loads(text.removeprefix("\ufeff"), parse_constant=_refuse_constant)


def inflated(body: bytes, content_encoding: str | None) -> bytes:
    """The body without gzip or deflate, as `content_encoding` announces them.

    A body that carries no such header is taken as it is, and so is any other encoding: kombu writes the character
    set there (`utf-8`, `binary`).
    """
    encoding = (content_encoding or "").strip().lower()
    if encoding in {"gzip", "x-gzip"} and body.startswith(_GZIP_MAGIC):
        return _inflate(body, encoding)
    if encoding == "deflate" and body[:1] == b"\x78":
        return _inflate(body, encoding)
    return body


def _inflate(body: bytes, encoding: str) -> bytes:
    pieces: list[bytes] = []
    left = MAX_INFLATED_BYTES
    rest = body
    try:
        while rest:  # a gzip body may consist of several members
            member = zlib.decompressobj(_DETECT_HEADER)
            piece = member.decompress(rest, left + 1)
            left -= len(piece)
            if left < 0:
                raise UnreadableBody(
                    f"{encoding} body of {len(body)} bytes inflates to over {MAX_INFLATED_BYTES} bytes"
                )
            if not member.eof:
                raise UnreadableBody(f"{encoding} body of {len(body)} bytes ends early")
            pieces.append(piece)
            rest = member.unused_data
    except zlib.error as error:
        raise UnreadableBody(f"{encoding} body of {len(body)} bytes is damaged: {error}") from error
    return b"".join(pieces)


def _refuse_constant(name: str) -> NoReturn:
    raise UnreadableBody(f"{name} is not JSON")
