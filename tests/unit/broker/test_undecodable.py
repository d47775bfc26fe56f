"""Messages no client library can decode are read by hand and cost no connection (B01, B03)."""

import asyncio
import datetime as dt
import struct
from types import SimpleNamespace

import aiormq.connection
import pamqp.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from airflow_provider_rmq.broker.aio_connection import ReadingConnection, _FrameReader, _Receiver, _Transport
from airflow_provider_rmq.broker.properties import Properties
from airflow_provider_rmq.broker.undecodable import UndecodableHeaders, raise_if_undecodable, readable_method
from airflow_provider_rmq.errors import BrokerError, UndecodableMessage


def short(text):
    return bytes([len(text)]) + text


def deliver(exchange, routing_key):
    return (
        struct.pack(">HH", 60, 60) + short(b"tag") + struct.pack(">QB", 255, 0) + short(exchange) + short(routing_key)
    )


def get_ok(exchange, routing_key):
    start = struct.pack(">HHQB", 60, 71, 2**63, 1)
    return start + short(exchange) + short(routing_key) + struct.pack(">I", 2**32 - 1)


def returned(exchange, routing_key):
    return struct.pack(">HHH", 60, 50, 312) + short(b"NO_ROUTE") + short(exchange) + short(routing_key)


@pytest.mark.parametrize("method", [deliver, get_ok, returned])
@pytest.mark.parametrize(
    ("name", "readable"),
    [
        (b"k\xff\xfe", "k\ufffd\ufffd".encode()),
        ("заказ".encode(), "заказ".encode()),
        (b"\xc3(", "\ufffd(".encode()),
        (b"", b""),
        (b"\xff" * 255, b"?" * 255),
    ],
)
def test_a_name_that_is_no_utf8_becomes_readable(method, name, readable):
    assert readable_method(method(name, name)) == method(readable, readable)


@given(st.binary(max_size=255), st.binary(max_size=255))
def test_whatever_the_names_the_frame_can_be_decoded(exchange, routing_key):
    payload = readable_method(deliver(exchange, routing_key))

    frame = struct.pack(">BHI", 1, 1, len(payload)) + payload + b"\xce"
    pamqp.frame.unmarshal(frame)


@pytest.mark.parametrize("payload", [b"", b"\x00", struct.pack(">HH", 50, 11) + short(b"\xff") + b"\x00" * 8])
def test_other_methods_are_left_alone(payload):
    assert readable_method(payload) is payload


def test_headers_that_cannot_be_read_are_an_error_that_names_the_queue():
    raise_if_undecodable({}, "q")
    with pytest.raises(UndecodableMessage, match="queue 'q': the header cannot be decoded, the message stays: why"):
        raise_if_undecodable(UndecodableHeaders("why") or {}, "q")
    assert issubclass(UndecodableMessage, BrokerError)


async def received(*frames):
    stream = asyncio.StreamReader()
    stream.feed_data(b"".join(frames))
    receiver = aiormq.connection.FrameReceiver(_FrameReader(stream))
    receiver.__class__ = _Receiver
    return [(await receiver.get_frame())[2] for _ in frames]


def header_frame(properties: bytes):
    payload = struct.pack(">HHQ", 60, 0, 5) + properties
    return struct.pack(">BHI", 2, 1, len(payload)) + payload + b"\xce"


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (1_772_000_000_000, dt.datetime(2026, 2, 25, 6, 13, 20, tzinfo=dt.timezone.utc)),
        (2**64 - 14_256_000, dt.datetime(1969, 7, 20, tzinfo=dt.timezone.utc)),
        (2**63 - 1, 2**63 - 1),
    ],
)
async def test_the_async_client_reads_timestamps_by_our_rule(number, value):
    """B01: both values, of which aiormq alone survives one."""
    entry = short(b"ts") + b"T" + struct.pack(">Q", number)
    (frame,) = await received(header_frame(struct.pack(">H", 1 << 13) + struct.pack(">I", len(entry)) + entry))

    assert frame.body_size == 5
    assert frame.properties.headers == {"ts": value}


async def test_the_async_client_survives_a_table_no_rule_can_read():
    (broken, body) = await received(
        header_frame(struct.pack(">H", 1 << 13) + struct.pack(">I", 3) + b"\x01a?"),
        struct.pack(">BHI", 3, 1, 5) + b"hello\xce",
    )

    assert isinstance(broken.properties.headers, UndecodableHeaders)
    assert "unknown type code" in broken.properties.headers.reason
    assert body.value == b"hello"


async def test_properties_that_amqp_does_not_know_cost_no_connection():
    (frame,) = await received(header_frame(b"\x00\x01\x80\x00\x01a"))

    assert "more properties" in frame.properties.headers.reason


@given(st.binary(max_size=60))
def test_whatever_the_bytes_properties_are_read_or_have_a_reason(encoded):
    found = Properties().decode(encoded)

    assert found.headers is None or isinstance(found.headers, dict)


async def test_all_properties_reach_the_async_client():
    given_properties = Properties(
        content_type="a", content_encoding="b", delivery_mode=2, priority=3, correlation_id="c", reply_to="d",
        expiration="60", message_id="e", timestamp=1, type="f", user_id="g", app_id="h", cluster_id="i",
    )  # fmt: skip
    (frame,) = await received(header_frame(b"".join(given_properties.encode())))

    found = frame.properties
    assert (found.content_type, found.content_encoding, found.delivery_mode, found.priority) == ("a", "b", 2, 3)
    assert (found.correlation_id, found.reply_to, found.expiration, found.message_id) == ("c", "d", "60", "e")
    assert (found.message_type, found.user_id, found.app_id, found.cluster_id) == ("f", "g", "h", "i")
    assert found.timestamp == dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc)


async def test_values_the_async_client_would_raise_on_are_left_out():
    (frame,) = await received(header_frame(b"".join(Properties(delivery_mode=7, timestamp=2**63 - 1).encode())))

    assert (frame.properties.delivery_mode, frame.properties.timestamp) == (None, None)


def test_the_client_library_still_has_what_is_replaced():
    """A new aiormq that renames its reader coroutine would quietly lose all of the above."""
    assert hasattr(aiormq.connection.Connection, "_Connection__reader")
    assert _Transport._Connection__reader is not aiormq.connection.Connection._Connection__reader


@pytest.mark.parametrize("is_opened", [True, False])
async def test_a_connection_whose_reader_or_writer_ended_is_closed(is_opened):
    """Nobody closed it, so aio-pika alone would go on calling it open, and it would be handed out for ever."""
    connection = ReadingConnection(URL("amqp://localhost"))
    connection.transport = SimpleNamespace(connection=SimpleNamespace(is_opened=is_opened))

    assert connection.is_closed is not is_opened
    connection.transport = None
