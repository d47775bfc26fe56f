"""What a DAG gets of a message is always JSON, and nothing is lost on the way."""

import base64
import datetime as dt
import json
import struct
from decimal import Decimal

import pytest
from factories import message
from hypothesis import assume, given
from hypothesis import strategies as st

from airflow_provider_rmq.broker.properties import Properties
from airflow_provider_rmq.broker.undecodable import UndecodableHeaders
from airflow_provider_rmq.messages.message import Message

HEADERS = {
    "ts": dt.datetime(2026, 2, 25, 6, 13, 20, tzinfo=dt.timezone.utc),
    "raw": b"\xff\xfe\x80",
    "price": Decimal("3.14"),
    "nan": float("nan"),
    "meta": {"tags": ["a", None], "n": 1},
    b"key": "x\x00y",
    "flag": None,
}


def test_headers_become_json_by_rule():
    assert message(headers=HEADERS).as_xcom()["headers"] == {
        "ts": "2026-02-25T06:13:20+00:00",
        "raw": {"base64": "//6A"},
        "price": "3.14",
        "nan": "NaN",
        "meta": {"tags": ["a", None], "n": 1},
        "key": r"x\u0000y",
        "flag": None,
    }


def test_an_ordinary_message_has_exactly_the_four_keys():
    assert message("text", exchange="e").as_xcom() == {
        "body": "text",
        "headers": {},
        "routing_key": "orders",
        "exchange": "e",
    }


@pytest.mark.parametrize(
    ("body", "text"), [(b"\xff\xfe{{", "\ufffd\ufffd{{"), (b"Jos\xe9", "Jos\ufffd"), (b"a\x00b", r"a\u0000b")]
)
def test_a_body_that_text_cannot_hold_is_there_a_second_time_losslessly(body, text):
    shown = message(body).as_xcom()

    assert shown["body"] == text
    assert base64.b64decode(shown["body_base64"]) == body


@given(body=st.binary(), headers=st.dictionaries(st.text(), st.text() | st.binary() | st.floats() | st.datetimes()))
def test_xcom_and_conf_are_json_without_nul_for_every_message(body, headers):
    foreign: Message = message(body, headers=headers)

    for shape in (foreign.as_xcom(), foreign.as_conf(subscription_id=1)):
        assert "\\u0000" not in json.dumps(shape, allow_nan=False).replace("\\\\u0000", "")


def field(code, payload):
    return b"\x01k" + code + payload


#: Header tables as bytes on the wire: known type codes with any value, and bytes that are nothing at all.
wire = st.binary(max_size=40) | st.one_of(
    st.tuples(st.sampled_from([b"d", b"l", b"T", b"L"]), st.binary(min_size=8, max_size=8)),
    st.tuples(st.sampled_from([b"f", b"I", b"i"]), st.binary(min_size=4, max_size=4)),
    st.tuples(st.just(b"D"), st.binary(min_size=5, max_size=5)),
    st.tuples(st.sampled_from([b"S", b"x"]), st.binary(max_size=20).map(lambda raw: struct.pack(">I", len(raw)) + raw)),
).map(lambda entry: field(*entry))


@given(table=wire, body=st.binary(max_size=40), encoding=st.sampled_from([None, "gzip", "deflate", "x"]))
def test_whatever_comes_over_the_wire_is_json_for_airflow(table, body, encoding):
    """B13, B29: no NaN, no bytes, no exception once a message is accepted."""
    encoded = struct.pack(">H", 1 << 13) + struct.pack(">I", len(table)) + table
    headers = Properties().decode(encoded).headers
    assume(not isinstance(headers, UndecodableHeaders))

    foreign: Message = message(body, headers=headers, content_encoding=encoding)

    for shape in (foreign.as_xcom(), foreign.as_conf(subscription_id=1)):
        json.dumps(shape, allow_nan=False)
