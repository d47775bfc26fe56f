"""Header tables: what is written can be read, and what cannot be carried is refused with its place."""

import datetime as dt
import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rmq.broker.field_tables import FieldTableError, decode_table, encode_table, timestamp

UTC = dt.timezone.utc
scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.datetimes(timezones=st.just(UTC), min_value=dt.datetime(1900, 1, 1)).map(lambda at: at.replace(microsecond=0))
    | st.integers(min_value=-(2**31), max_value=2**31 - 1).map(lambda number: Decimal(number).scaleb(-2))
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)


@given(table=st.dictionaries(st.text(max_size=10), values, max_size=6))
def test_what_is_written_is_read_again(table):
    encoded = encode_table(table)

    assert decode_table(encoded, 0) == (table, len(encoded))


@given(data=st.binary(max_size=60))
def test_any_bytes_are_a_table_or_a_field_table_error(data):
    block = struct.pack(">I", len(data)) + data

    try:
        table, end = decode_table(block, 0)
    except FieldTableError:
        return
    assert isinstance(table, dict)
    assert end == len(block)


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (0, dt.datetime(1970, 1, 1, tzinfo=UTC)),
        (1772000000, dt.datetime(2026, 2, 25, 6, 13, 20, tzinfo=UTC)),
        (1772000000000, dt.datetime(2026, 2, 25, 6, 13, 20, tzinfo=UTC)),
        (-14256000, dt.datetime(1969, 7, 20, tzinfo=UTC)),
        (253_402_300_799, dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
    ],
)
def test_a_timestamp_is_in_seconds_or_milliseconds_or_stays_a_number(number, moment):
    assert timestamp(number) == moment


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ({"a": float("nan")}, r"headers\['a'\].*finite"),
        ({"a": {"b": [1, object()]}}, r"headers\['a'\]\['b'\]\[1\].*object"),
        ({"a": 2**63}, r"headers\['a'\].*64 bits"),
        ({"a": Decimal(12345678901)}, r"headers\['a'\].*32 bits"),
        ({"a": Decimal("Infinity")}, r"headers\['a'\].*finite"),
        ({"a": dt.datetime(2026, 10, 25, 2, 30)}, r"headers\['a'\].*no time zone"),
        ({5: "a"}, "key must be a str"),
        ({"я" * 128: 1}, "256 bytes"),
    ],
)
def test_what_amqp_cannot_carry_is_refused_with_its_place(table, where):
    """B59 (naive datetimes), B05 and R05 (NaN), B07."""
    with pytest.raises(ValueError, match=where):
        encode_table(table)
