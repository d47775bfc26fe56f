"""AMQP field tables, the wire form of headers: read whatever a broker lets through, write what a DAG author gives.

pika 1.4 cuts the fraction off floats, cannot write them, and loses the whole connection over a timestamp beyond the
year 9999, which is what milliseconds look like. `broker.properties` puts this codec in its place.

Timestamps: seconds, or milliseconds where seconds cannot be meant, also before 1970 (two's complement, as Java clients
write it); a number no calendar holds stays a number. Text that is not UTF-8 stays bytes, and so do such keys.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from airflow_provider_rmq.errors import ConfigurationError

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
#: Seconds of the last moment of the year 9999; what is larger must be milliseconds.
_LAST_SECOND = 253_402_300_799
#: Tables within tables; more would end Python's recursion, and no honest sender comes near it.
MAX_DEPTH = 100
MAX_SHORT_STRING = 255
_MAX_DECIMALS = 255


class FieldTableError(ValueError):
    """The bytes are no field table; the text says where reading stopped."""


#: Type codes of fixed width: code -> struct format.
_FIXED = {
    b"t": ">?",
    b"b": ">b",
    b"B": ">B",
    b"U": ">h",
    b"s": ">h",
    b"u": ">H",
    b"I": ">i",
    b"i": ">I",
    b"L": ">q",
    b"l": ">q",
    b"f": ">f",
    b"d": ">d",
}


def decode_table(data: bytes, offset: int, depth: int = 0) -> tuple[dict[Any, Any], int]:
    """The table at `offset` and the offset behind it.

    Raises:
        FieldTableError: An unknown type code, a length beyond the data, or too many tables within tables.
    """
    block, end = _block(data, offset)
    table: dict[Any, Any] = {}
    position = 0
    while position < len(block):
        key, position = decode_short_string(block, position)
        table[key], position = _decode_value(block, position, depth)
    return table, end


def decode_short_string(data: bytes, offset: int) -> tuple[str | bytes, int]:
    """Text, or bytes where it is not UTF-8, and the offset behind it."""
    length = _unpack(">B", data, offset)
    end = offset + 1 + length
    return _text(_slice(data, offset + 1, end)), end


def _decode_value(data: bytes, offset: int, depth: int) -> tuple[Any, int]:
    code, offset = data[offset : offset + 1], offset + 1
    if code in _FIXED:
        layout = _FIXED[code]
        return _unpack(layout, data, offset), offset + struct.calcsize(layout)
    if code == b"V":
        return None, offset
    if code == b"T":
        return timestamp(_unpack(">q", data, offset)), offset + 8
    if code == b"D":
        return Decimal(_unpack(">i", data, offset + 1)).scaleb(-_unpack(">B", data, offset)), offset + 5
    if code == b"S":
        block, end = _block(data, offset)
        return _text(block), end
    if code == b"x":
        return _block(data, offset)
    if depth >= MAX_DEPTH:
        raise FieldTableError(f"more than {MAX_DEPTH} tables within tables")
    if code == b"F":
        return decode_table(data, offset, depth + 1)
    if code == b"A":
        return _decode_array(data, offset, depth + 1)
    raise FieldTableError(f"unknown type code {code!r}")


def _decode_array(data: bytes, offset: int, depth: int) -> tuple[list[Any], int]:
    block, end = _block(data, offset)
    array: list[Any] = []
    position = 0
    while position < len(block):
        value, position = _decode_value(block, position, depth)
        array.append(value)
    return array, end


def timestamp(number: int) -> datetime | int:
    """The moment that a timestamp's number means, or the number where it means none."""
    for milliseconds in (1000 * number, number):
        if abs(milliseconds) <= 1000 * _LAST_SECOND:
            try:
                return _EPOCH + timedelta(milliseconds=milliseconds)
            except OverflowError:  # before the year 1
                break
    return number


def _block(data: bytes, offset: int) -> tuple[bytes, int]:
    length = _unpack(">I", data, offset)
    end = offset + 4 + length
    return _slice(data, offset + 4, end), end


def _slice(data: bytes, start: int, end: int) -> bytes:
    if end > len(data):
        raise FieldTableError(f"a length of {end - start} bytes reaches beyond the end")
    return data[start:end]


def _unpack(layout: str, data: bytes, offset: int) -> Any:
    try:
        return struct.unpack_from(layout, data, offset)[0]
    except struct.error as error:
        raise FieldTableError(f"the table ends early: {error}") from error


def _text(data: bytes) -> str | bytes:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return bytes(data)


def encode_table(table: Mapping[Any, Any], where: str = "headers") -> bytes:
    """The wire form of a table.

    Raises:
        ConfigurationError: A key or value that AMQP cannot carry; the text says where it stands.
    """
    pieces = []
    for key, value in table.items():
        if not isinstance(key, str):
            raise ConfigurationError(f"{where}: a key must be a str, not {key!r}")
        pieces.append(encode_short_string(key, f"{where}: key"))
        pieces.append(_encode_value(value, f"{where}[{key!r}]"))
    return _sized(b"".join(pieces))


def encode_short_string(text: str, where: str) -> bytes:
    """The wire form of a name, at most 255 bytes."""
    data = text.encode("utf-8")
    if len(data) > MAX_SHORT_STRING:
        raise ConfigurationError(
            f"{where} is {len(data)} bytes of UTF-8, allowed are {MAX_SHORT_STRING}: {text[:40]!r}…"
        )
    return struct.pack(">B", len(data)) + data


def _encode_value(value: Any, where: str) -> bytes:
    if value is None:
        return b"V"
    for kind, encode in _ENCODERS:
        if isinstance(value, kind):
            return encode(value, where)
    raise ConfigurationError(
        f"{where}: AMQP headers cannot carry {type(value).__name__}; allowed are None, bool, int, float, Decimal, str, "
        "bytes, aware datetime, list and dict"
    )


def _encode_int(value: int, where: str) -> bytes:
    for layout, code in ((">ci", b"I"), (">cq", b"l")):
        try:
            return struct.pack(layout, code, value)
        except struct.error:
            continue
    raise ConfigurationError(f"{where}: {value} does not fit into 64 bits")


def _encode_float(value: float, where: str) -> bytes:
    if not math.isfinite(value):  # RabbitMQ 3.10.8 answers NaN with 541 and closes the publisher's connection
        raise ConfigurationError(f"{where}: a float must be finite, not {value}")
    return struct.pack(">cd", b"d", value)


def _encode_decimal(value: Decimal, where: str) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if isinstance(exponent, str):
        raise ConfigurationError(f"{where}: a decimal must be finite, not {value}")
    number = int("".join(map(str, digits))) * 10 ** max(exponent, 0) * (-1 if sign else 1)
    decimals = max(-exponent, 0)
    try:
        return struct.pack(">cBi", b"D", decimals, number)
    except struct.error as error:
        raise ConfigurationError(
            f"{where}: {value} does not fit into AMQP's decimal, 32 bits and {_MAX_DECIMALS} decimals; give it as text"
        ) from error


def _encode_datetime(value: datetime, where: str) -> bytes:
    if value.tzinfo is None:
        raise ConfigurationError(f"{where}: {value.isoformat()} has no time zone, and AMQP's timestamps are UTC")
    return struct.pack(">cq", b"T", int((value - _EPOCH).total_seconds()))


def _encode_list(value: list[Any] | tuple[Any, ...], where: str) -> bytes:
    return b"A" + _sized(b"".join(_encode_value(item, f"{where}[{index}]") for index, item in enumerate(value)))


def _sized(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


#: In this order: a bool is an int, too.
_ENCODERS: tuple[tuple[type | tuple[type, ...], Callable[[Any, str], bytes]], ...] = (
    (bool, lambda value, _where: struct.pack(">c?", b"t", value)),
    (int, _encode_int),
    (float, _encode_float),
    (str, lambda value, _where: b"S" + _sized(value.encode("utf-8", errors="replace"))),
    (bytes, lambda value, _where: b"x" + _sized(value)),
    (Decimal, _encode_decimal),
    (datetime, _encode_datetime),
    (Mapping, lambda value, where: b"F" + encode_table(value, where)),
    ((list, tuple), _encode_list),
)
