"""AMQP connections that survive a message the client library cannot decode.

aiormq decodes a frame in the task that reads the whole connection (seen in 6.9 and 7.2): a header it cannot decode, say
a date before 1970, or a routing key that is not UTF-8, ends that task and with it every consumer of the connection. And
the message comes again. So here the frames are looked at before aiormq sees them. A content header it could not decode
is put into an envelope: a header table with one entry, the original bytes. `QueueDelivery` in `attachment` opens it
with our own codec (`properties`), and what even that cannot read is a matter of that one consumer (`quarantine`).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import aio_pika
import pamqp.header
from aiormq.connection import TCPTransportFactory, TLSTransportFactory, TransportFactory
from yarl import URL

from airflow_provider_rmq.broker.field_tables import MAX_SHORT_STRING
from airflow_provider_rmq.broker.properties import Properties, UndecodableHeaders
from airflow_provider_rmq.errors import describe

_HEAD = struct.Struct(">BHI")
_METHOD, _HEADER = 1, 2
#: Class and method of the frames that carry names given by other clients, and how many octets stand before the names:
#: basic.deliver has a consumer tag of ours first.
_DELIVER, _GET_OK, _RETURN = (60, 60), (60, 71), (60, 50)
#: Octets of delivery tag and flags.
_TAG_AND_FLAGS = 9
#: Octets of class, weight and body size before the properties in a content header.
_BEFORE_PROPERTIES = 12
_HEADERS_FLAG = 1 << 13
#: Says that a second word of flags follows; pamqp 3.3 reads the first one again and again.
_MORE_FLAGS = 1
#: The envelope's key; a new one in each process, so that no sender can know it.
_ENVELOPE = f"rmq-enveloped-{uuid4().hex}"


class ReadableConnection(aio_pika.Connection):
    """aio-pika's plain connection, reading through `_ReadableStream`."""

    def __init__(self, url: URL, loop: asyncio.AbstractEventLoop | None = None, **given: Any) -> None:
        super().__init__(url, loop=loop, **given)
        self._opened = _ReadableTransport()
        self.kwargs = {**self.kwargs, "transport_factory": self._opened}

    async def connect(self, timeout: float | None = None) -> None:
        """Connect; a handshake that fails or is given up leaves no open socket behind.

        aiormq 6.9 forgets the socket when the broker accepts it and says nothing.
        """
        try:
            await super().connect(timeout)
        except BaseException:
            if self._opened.writer is not None:
                self._opened.writer.transport.abort()
            raise


class _ReadableTransport(TransportFactory):
    writer: asyncio.StreamWriter | None = None

    async def create(self, url: URL, **given: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        plain = TLSTransportFactory() if url.scheme == "amqps" else TCPTransportFactory()
        reader, writer = await plain.create(url, **given)
        self.writer = writer
        return _ReadableStream(reader), writer  # type: ignore[return-value]  # it has what aiormq calls of a reader


class _ReadableStream:
    """The part of a `StreamReader` that aiormq uses; hands out whole frames, made readable."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self._rest = b""

    def at_eof(self) -> bool:
        """Whether nothing comes any more."""
        return not self._rest and self._stream.at_eof()

    async def read(self, count: int = -1) -> bytes:
        """What there is."""
        rest, self._rest = self._rest, b""
        return rest or await self._stream.read(count)

    async def readexactly(self, count: int) -> bytes:
        """So many octets."""
        if not self._rest:
            self._rest = await self._next_frame()
        if len(self._rest) < count:
            self._rest += await self._stream.readexactly(count - len(self._rest))
        taken, self._rest = self._rest[:count], self._rest[count:]
        return taken

    async def _next_frame(self) -> bytes:
        head = await self._stream.readexactly(_HEAD.size)
        if head.startswith(b"AMQP"):  # a broker of another protocol version answers with its own greeting
            return head
        kind, channel, size = _HEAD.unpack(head)
        rest = await self._stream.readexactly(size + 1)
        if kind not in {_METHOD, _HEADER}:
            return head + rest
        payload, end = rest[:-1], rest[-1:]
        readable = readable_header(payload) if kind == _HEADER else readable_method(payload)
        if readable is payload:
            return head + rest
        return _HEAD.pack(kind, channel, len(readable)) + readable + end


def readable_header(payload: bytes) -> bytes:
    """A content header that aiormq can decode: the same one, or an envelope around its properties."""
    if _decodes(payload):
        return payload
    properties = payload[_BEFORE_PROPERTIES:]
    key = _ENVELOPE.encode()
    entry = struct.pack(">B", len(key)) + key + b"x" + struct.pack(">I", len(properties)) + properties
    table = struct.pack(">I", len(entry)) + entry
    return payload[:_BEFORE_PROPERTIES] + struct.pack(">H", _HEADERS_FLAG) + table


def _decodes(payload: bytes) -> bool:
    """Whether aiormq can; ours is asked first, because pamqp never returns from some lengths that point too far."""
    if undecodable_reason(_opened(payload[_BEFORE_PROPERTIES:])) is not None:
        return False
    try:
        pamqp.header.ContentHeader().unmarshal(payload)
    except Exception:  # noqa: BLE001 - struct, Unicode, overflow, recursion: whatever its decoders run into
        return False
    return True


def readable_method(payload: bytes) -> bytes:
    """A method whose names are UTF-8: the same one, or with U+FFFD in place of what is not."""
    method = struct.unpack_from(">HH", payload) if len(payload) >= 4 else (0, 0)  # noqa: PLR2004 - two shorts
    if method not in {_DELIVER, _GET_OK, _RETURN}:
        return payload
    position = 4
    if method == _DELIVER:
        position += 1 + payload[position]
    position += 2 if method == _RETURN else _TAG_AND_FLAGS
    names_end = position
    fixed: list[bytes] = []
    for _ in range(3 if method == _RETURN else 2):
        length = payload[names_end]
        name = payload[names_end + 1 : names_end + 1 + length]
        names_end += 1 + length
        text = _utf8(name)
        fixed.append(struct.pack(">B", len(text)) + text)
    rewritten = payload[:position] + b"".join(fixed) + payload[names_end:]
    return payload if rewritten == payload else rewritten


def _utf8(name: bytes) -> bytes:
    """UTF-8 that fits where the name stood."""
    text = name.decode(errors="replace").encode()
    return (
        text
        if len(text) <= MAX_SHORT_STRING
        else name.decode("ascii", errors="replace").replace("\ufffd", "?").encode()
    )


def enveloped(headers: Mapping[str, Any]) -> Properties | UndecodableHeaders | None:
    """What an envelope holds, read with our own codec; None for headers that are no envelope."""
    if (raw := headers.get(_ENVELOPE)) is None:
        return None
    return _opened(bytes(raw))


def _opened(raw: bytes) -> Properties | UndecodableHeaders:
    try:
        if struct.unpack_from(">H", raw)[0] & _MORE_FLAGS:
            return UndecodableHeaders("it has more properties than AMQP 0-9-1 knows")
        return Properties().decode(raw)
    except (ValueError, struct.error, IndexError, RecursionError, OverflowError) as error:
        return UndecodableHeaders(describe(error))


def undecodable_reason(properties: Properties | UndecodableHeaders) -> str | None:
    """Why the properties cannot be decoded, None where they can."""
    found = properties if isinstance(properties, UndecodableHeaders) else properties.headers
    return found.reason if isinstance(found, UndecodableHeaders) else None
