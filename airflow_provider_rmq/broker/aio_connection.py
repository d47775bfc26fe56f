"""aio-pika's connection with deliveries read by our header codec, as `pika_connection` is pika's.

A header that aiormq cannot decode kills the connection before any callback runs, and with it every consumer on it.
The one place that reaches into aiormq: `FrameReceiver.reader`, and `Connection.__reader`, the coroutine that gets
the receiver when the handshake is over (aiormq 6.9 and 7.2).
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import aio_pika
import aiormq.connection
from aio_pika.abc import UnderlayConnection
from pamqp import commands, header

from airflow_provider_rmq.broker.field_tables import timestamp
from airflow_provider_rmq.broker.properties import Properties
from airflow_provider_rmq.broker.undecodable import readable_method

_FRAME = struct.Struct(">BHI")
_CONTENT_HEADER = struct.Struct(">HHQ")
_METHOD_FRAME, _HEADER_FRAME = 1, 2
_DELIVERY_MODES = (1, 2)


class _FrameReader:
    """Stands between the socket and aiormq's receiver, which asks for type, channel with length, and payload in turn.

    Of a content header it hands on the length of the body only and keeps the properties back, as `properties`.
    """

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._pending = b""
        self.properties: Properties | None = None

    def at_eof(self) -> bool:
        return not self._pending and self._reader.at_eof()

    async def read(self, count: int = -1) -> bytes:
        return await self._reader.read(count)

    async def readexactly(self, count: int) -> bytes:
        if not self._pending:
            self._pending = await self._next_frame()
        piece, self._pending = self._pending[:count], self._pending[count:]
        return piece

    async def _next_frame(self) -> bytes:
        start = await self._reader.readexactly(_FRAME.size)
        kind, channel, size = _FRAME.unpack(start)
        rest = await self._reader.readexactly(size + 1)
        payload, end = rest[:-1], rest[-1:]
        self.properties = None
        if kind == _METHOD_FRAME:
            payload = readable_method(payload)
        elif kind == _HEADER_FRAME:
            class_id, weight, body_size = _CONTENT_HEADER.unpack_from(payload)
            self.properties = Properties().decode(payload[_CONTENT_HEADER.size :])
            payload = _CONTENT_HEADER.pack(class_id, weight, body_size) + b"\x00\x00"
        return _FRAME.pack(kind, channel, len(payload)) + payload + end


class _Receiver(aiormq.connection.FrameReceiver):
    """aiormq's receiver, giving content headers the properties that were read by our codec."""

    async def get_frame(self) -> Any:
        weight, channel, frame = await super().get_frame()
        reader: Any = getattr(self, "reader", None)
        if isinstance(frame, header.ContentHeader) and reader.properties is not None:
            frame.properties = _as_aiormq(reader.properties)
        return weight, channel, frame


def _as_aiormq(found: Properties) -> commands.Basic.Properties:
    """Our properties as aio-pika takes them; what it would raise on when it makes a message is left out."""
    moment = None if found.timestamp is None else timestamp(found.timestamp)
    properties = commands.Basic.Properties()
    for name in ("content_type", "content_encoding", "headers", "priority", "correlation_id", "reply_to"):
        setattr(properties, name, getattr(found, name))
    for name in ("message_id", "user_id", "app_id", "cluster_id"):
        setattr(properties, name, getattr(found, name))
    properties.message_type = found.type
    properties.delivery_mode = found.delivery_mode if found.delivery_mode in _DELIVERY_MODES else None
    properties.expiration = found.expiration if str(found.expiration).isdecimal() else None
    properties.timestamp = None if isinstance(moment, int) else moment
    return properties


class _Transport(aiormq.connection.Connection):
    """aiormq's connection with our receiver."""

    async def _Connection__reader(self, frame_receiver: Any) -> None:  # noqa: N802 - the mangled name is aiormq's
        frame_receiver.reader = _FrameReader(frame_receiver.reader)
        frame_receiver.__class__ = _Receiver
        await super()._Connection__reader(frame_receiver)  # type: ignore[misc]


class _Opened:
    """Remembers the socket of an attempt to connect: aiormq forgets it when the broker accepts and says nothing."""

    def __init__(self, factory: Any) -> None:
        self.factory = factory
        self._writer: asyncio.StreamWriter | None = None

    async def create(self, *args: Any, **kwargs: Any) -> Any:
        """Open the socket; aiormq calls it."""
        reader, self._writer = await self.factory.create(*args, **kwargs)
        return reader, self._writer

    def abort(self) -> None:
        """Close what is open."""
        if self._writer is not None:
            self._writer.transport.abort()


class _Underlay(UnderlayConnection):
    """Makes our connection where aio-pika would make aiormq's."""

    @classmethod
    async def make_connection(cls, url: Any, timeout: Any = None, **kwargs: Any) -> Any:
        """Connect within `timeout` seconds."""
        client_properties = kwargs.pop("client_properties", None)
        connection: Any = _Transport(url, **kwargs)
        opened = _Opened(getattr(connection, "_transport_factory", None))
        if opened.factory is not None:  # aiormq 6.8 has none
            connection._transport_factory = opened  # noqa: SLF001
        try:
            await asyncio.wait_for(connection.connect(client_properties or {}), timeout)
        except BaseException:
            opened.abort()
            raise
        await connection.ready()
        return connection


class ReadingConnection(aio_pika.Connection):
    """For `aio_pika.connect(connection_class=...)`: headers are read by the same rules as with pika."""

    async def connect(self, timeout: Any = None) -> None:
        """Connect to the broker; `aio_pika.connect` calls it."""
        self.transport = await _Underlay.connect(self.url, self._on_connection_close, timeout=timeout, **self.kwargs)
        await self._on_connected()

    @property
    def is_closed(self) -> bool:
        """Whether it is gone, also when nobody closed it: aio-pika 9.6 counts only its own `close`."""
        transport: Any = self.transport
        return super().is_closed or (transport is not None and not transport.connection.is_opened)
