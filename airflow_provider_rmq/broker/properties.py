"""AMQP basic properties: checked before they are published, read without losing the connection.

`Properties` is pika's class with `field_tables` as its codec for headers; `PikaConnection` in `broker.pika_connection`
sees to it that deliveries carry it, too.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pika

from airflow_provider_rmq.broker.field_tables import (
    FieldTableError,
    decode_short_string,
    decode_table,
    encode_short_string,
    encode_table,
)
from airflow_provider_rmq.broker.undecodable import UndecodableHeaders
from airflow_provider_rmq.errors import ConfigurationError, describe

#: Milliseconds; RabbitMQ refuses a larger expiration.
MAX_EXPIRATION = 2**32 - 1
MAX_PRIORITY = 255
_DELIVERY_MODES = (1, 2)

_TEXT, _TABLE, _OCTET, _TIMESTAMP = "text", "table", "octet", "timestamp"
#: The properties in their order on the wire; the first has the highest flag.
_FIELDS = (
    ("content_type", _TEXT),
    ("content_encoding", _TEXT),
    ("headers", _TABLE),
    ("delivery_mode", _OCTET),
    ("priority", _OCTET),
    ("correlation_id", _TEXT),
    ("reply_to", _TEXT),
    ("expiration", _TEXT),
    ("message_id", _TEXT),
    ("timestamp", _TIMESTAMP),
    ("type", _TEXT),
    ("user_id", _TEXT),
    ("app_id", _TEXT),
    ("cluster_id", _TEXT),
)
_FIRST_FLAG = 15
#: Says that a second word of flags follows.
_MORE_FLAGS = 1
_LAYOUTS = {_OCTET: ">B", _TIMESTAMP: ">Q"}


class Properties(pika.BasicProperties):
    """pika's basic properties with our codec."""

    @classmethod
    def of(cls, properties: pika.BasicProperties | None) -> Properties:
        """The same properties, ready to be published."""
        if properties is None or isinstance(properties, cls):
            return properties or cls()
        return cls(**{name: getattr(properties, name) for name, _ in _FIELDS})

    def decode(self, encoded: bytes, offset: int = 0) -> Properties:
        """Read the properties of a content header; of one that cannot be read there is only the reason, as headers."""
        try:
            return self._decode(encoded, offset)
        except (struct.error, IndexError, ValueError) as error:
            for name, _ in _FIELDS:
                setattr(self, name, None)
            self.headers = UndecodableHeaders(describe(error))
            return self

    def _decode(self, encoded: bytes, offset: int) -> Properties:
        (flags,) = struct.unpack_from(">H", encoded, offset)
        if flags & _MORE_FLAGS:
            raise FieldTableError("it has more properties than AMQP 0-9-1 knows")
        offset += 2
        for position, (name, kind) in enumerate(_FIELDS):
            value = None
            if flags & 1 << (_FIRST_FLAG - position):
                value, offset = _decode(kind, encoded, offset)
            setattr(self, name, value)
        return self

    def encode(self) -> list[bytes]:
        """The wire form.

        Raises:
            ConfigurationError: A property that AMQP cannot carry.
        """
        flags = 0
        pieces = [b""]
        for position, (name, kind) in enumerate(_FIELDS):
            value = getattr(self, name)
            if value is not None:
                flags |= 1 << (_FIRST_FLAG - position)
                pieces.append(_encode(kind, name, value))
        pieces[0] = struct.pack(">H", flags)
        return pieces


def _decode(kind: str, encoded: bytes, offset: int) -> tuple[Any, int]:
    if kind == _TABLE:
        try:
            return decode_table(encoded, offset)
        except FieldTableError as error:
            (length,) = struct.unpack_from(">I", encoded, offset)
            return UndecodableHeaders(str(error)), offset + 4 + length
    if kind == _TEXT:
        value, offset = decode_short_string(encoded, offset)
        return value if isinstance(value, str) else value.decode("utf-8", errors="replace"), offset
    layout = _LAYOUTS[kind]
    return struct.unpack_from(layout, encoded, offset)[0], offset + struct.calcsize(layout)


def _encode(kind: str, name: str, value: Any) -> bytes:
    if kind == _TABLE:
        return encode_table(value)
    if kind == _TEXT:
        if isinstance(value, bytes):
            value = value.decode("utf-8", errors="replace")
        if not isinstance(value, str):
            raise ConfigurationError(f"{name} must be a str or None, not {value!r}")
        return encode_short_string(value, name)
    try:
        return struct.pack(_LAYOUTS[kind], value)
    except struct.error as error:
        raise ConfigurationError(
            f"{name} must be a whole number of at most {_LAYOUTS[kind]!r}, not {value!r}"
        ) from error


def publish_properties(
    *,
    content_type: str | None = None,
    delivery_mode: int | None = None,
    headers: Mapping[str, Any] | None = None,
    priority: int | None = None,
    expiration: str | int | timedelta | None = None,
    correlation_id: str | None = None,
    reply_to: str | None = None,
    message_id: str | None = None,
) -> Properties:
    """The properties of a message to publish, checked here so that no bad value reaches the broker.

    Raises:
        ConfigurationError: A value that AMQP or RabbitMQ refuses.
    """
    if delivery_mode is not None and int(delivery_mode) not in _DELIVERY_MODES:
        raise ConfigurationError(f"delivery_mode must be 1 (transient), 2 (persistent) or None, not {delivery_mode!r}")
    if priority is not None and (isinstance(priority, bool) or not 0 <= priority <= MAX_PRIORITY):
        raise ConfigurationError(f"priority must be a whole number from 0 to {MAX_PRIORITY} or None, not {priority!r}")
    if headers is not None and not isinstance(headers, Mapping):
        raise ConfigurationError(f"headers must be a dict or None, not {headers!r}")
    properties = Properties(
        content_type=content_type,
        delivery_mode=delivery_mode,
        headers=None if headers is None else dict(headers),
        priority=priority,
        expiration=expiration_text(expiration),
        correlation_id=correlation_id,
        reply_to=reply_to,
        message_id=message_id,
    )
    properties.encode()
    return properties


def expiration_text(expiration: str | int | timedelta | None) -> str | None:
    """A message's TTL as AMQP carries it: whole milliseconds, as text. Numbers are milliseconds.

    Raises:
        ConfigurationError: Anything RabbitMQ would close the channel for, such as `60s` or a negative number.
    """
    if expiration is None:
        return None
    text = expiration
    if isinstance(expiration, timedelta):
        text = str(expiration // timedelta(milliseconds=1))
    elif isinstance(expiration, int) and not isinstance(expiration, bool):
        text = str(expiration)
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and int(text) <= MAX_EXPIRATION):
        raise ConfigurationError(
            "expiration must be whole milliseconds, as text or number or timedelta, "
            f"from 0 to {MAX_EXPIRATION}, not {expiration!r}"
        )
    return text
