"""Frames that aiormq cannot decode reach it as ones it can, and nothing of the message is lost on the way."""

import asyncio
import struct

import pamqp.frame
import pamqp.header
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands

from airflow_provider_rmq.broker.readable_frames import (
    _ReadableStream,
    enveloped,
    readable_header,
    readable_method,
    undecodable_reason,
)

BEFORE_1970 = 2**64 - 14256000


def header(flags, properties, size=4):
    return struct.pack(">HHQH", 60, 0, size, flags) + properties


def table(*fields):
    packed = b"".join(fields)
    return struct.pack(">I", len(packed)) + packed


def field(name, code, value):
    return struct.pack(">B", len(name)) + name.encode() + code + value


def nested(depth):
    value = b""
    for _ in range(depth):
        value = b"A" + struct.pack(">I", len(value)) + value
    return field("deep", b"", value)


def decoded(payload):
    found = pamqp.header.ContentHeader()
    found.unmarshal(payload)
    return found


HEADERS, MESSAGE_ID = 1 << 13, 1 << 7


def test_what_aiormq_can_decode_passes_unchanged():
    payload = header(HEADERS, table(field("kind", b"S", struct.pack(">I", 5) + b"order")))

    assert readable_header(payload) is payload


def test_a_date_before_1970_arrives_with_all_its_neighbours():
    """B01, second value: aiormq's own decoder ends the connection."""
    fields = table(field("at", b"T", struct.pack(">Q", BEFORE_1970)), field("n", b"l", struct.pack(">q", 7)))
    payload = header(HEADERS | MESSAGE_ID, fields + b"\x02m1", size=9)
    with pytest.raises(Exception, match=r".*"):
        decoded(payload)

    found = decoded(readable_header(payload))
    opened = enveloped(found.properties.headers)

    assert found.body_size == 9
    assert undecodable_reason(opened) is None
    assert opened.headers["at"].isoformat() == "1969-07-20T00:00:00+00:00"
    assert (opened.headers["n"], opened.message_id) == (7, "m1")


def test_a_message_id_that_is_no_text_arrives_with_replacements():
    opened = enveloped(decoded(readable_header(header(MESSAGE_ID, b"\x02\xff\xfe"))).properties.headers)

    assert opened.message_id == "\ufffd\ufffd"


@pytest.mark.parametrize("depth", [150, 3000])
def test_tables_within_tables_beyond_the_rule_are_named_and_not_read(depth):
    """Both where aiormq would follow them and where it runs out of recursion."""
    opened = enveloped(decoded(readable_header(header(HEADERS, table(nested(depth))))).properties.headers)

    assert "tables within tables" in undecodable_reason(opened)


def test_a_header_of_nonsense_is_named():
    opened = enveloped(decoded(readable_header(header(HEADERS, b"\x00\x00\xff\xff"))).properties.headers)

    assert undecodable_reason(opened)


def test_headers_that_are_no_envelope_are_left():
    assert enveloped({"rmq-enveloped": b"x"}) is None


@given(st.integers(0, 2**16 - 1), st.binary(max_size=200))
def test_whatever_stands_in_a_header_aiormq_can_decode_what_it_gets(flags, properties):
    decoded(readable_header(header(flags, properties)))


def deliver(exchange, routing_key):
    names = b"".join(struct.pack(">B", len(name)) + name for name in (exchange, routing_key))
    return struct.pack(">HH", 60, 60) + b"\x03tag" + struct.pack(">QB", 255, 0) + names


def test_a_routing_key_that_is_not_utf8_is_delivered_with_replacements():
    raw = pamqp.frame._marshal(1, 1, readable_method(deliver(b"ex", b"a\xffb")))

    _, _, frame = pamqp.frame.unmarshal(raw)

    assert isinstance(frame, commands.Basic.Deliver)
    assert (frame.consumer_tag, frame.delivery_tag, frame.exchange) == ("tag", 255, "ex")
    assert frame.routing_key == "a\ufffdb"


def test_replacements_never_outgrow_a_short_string():
    raw = pamqp.frame._marshal(1, 1, readable_method(deliver(b"", b"\xff" * 255)))

    assert pamqp.frame.unmarshal(raw)[2].routing_key == "?" * 255


def test_a_method_with_good_names_passes_unchanged():
    payload = deliver("ü".encode(), b"a.b")

    assert readable_method(payload) is payload


async def test_a_stream_keeps_its_frames_apart_whatever_their_sizes():
    stream = asyncio.StreamReader()
    bad = header(HEADERS, table(field("at", b"T", struct.pack(">Q", BEFORE_1970))))
    frames = [(1, deliver(b"", b"q")), (2, bad), (3, b"body"), (8, b"")]
    for kind, payload in frames:
        stream.feed_data(struct.pack(">BHI", kind, 1, len(payload)) + payload + b"\xce")
    stream.feed_eof()
    readable = _ReadableStream(stream)

    got = []
    while not readable.at_eof():
        head = await readable.readexactly(1) + await readable.readexactly(6)
        got.append(pamqp.frame.unmarshal(head + await readable.readexactly(struct.unpack(">BHI", head)[2] + 1)))

    assert [type(frame).__name__ for _, _, frame in got] == ["Deliver", "ContentHeader", "ContentBody", "Heartbeat"]
    with pytest.raises(asyncio.IncompleteReadError):
        await readable.readexactly(1)
