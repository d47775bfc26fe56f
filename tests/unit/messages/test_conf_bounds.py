"""L10: a conf is bounded, says what was cut, and stays JSON (B29)."""

import base64
import gzip
import json
from datetime import datetime, timezone
from decimal import Decimal

import pytest
from factories import message
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rmq.messages.conf_bounds import DEFAULT_BODY_BYTES, ConfBounds
from airflow_provider_rmq.messages.markers import MarkerPayload


def conf_of(body, bounds=None, **fields):
    return message(body, **fields).as_conf(subscription_id=1, bounds=bounds or ConfBounds())


def test_a_body_within_the_bound_is_whole_and_nothing_is_told():
    conf = conf_of("x" * DEFAULT_BODY_BYTES)

    assert len(conf["body"]) == DEFAULT_BODY_BYTES == 262_144
    assert "truncated" not in conf


def test_a_longer_body_is_cut_and_its_size_is_told():
    conf = conf_of("x" * (DEFAULT_BODY_BYTES + 1))

    assert len(conf["body"]) == DEFAULT_BODY_BYTES
    assert conf["truncated"] == DEFAULT_BODY_BYTES + 1


@pytest.mark.parametrize(("size", "expected"), [(3, "aü"), (2, "a"), (1, "a"), (5, "aü€"[:2])])
def test_it_is_cut_between_characters(size, expected):
    assert conf_of("aü€b", ConfBounds(body=size))["body"] == expected


def test_a_binary_body_is_bounded_in_both_its_forms():
    conf = conf_of(b"\xff" * 1000, ConfBounds(body=300))

    assert len(conf["body"].encode()) <= 300
    assert base64.b64decode(conf["body_base64"]) == b"\xff" * 300
    assert conf["truncated"] == 1000


def test_bytes_that_grow_as_text_are_bounded_as_text():
    conf = conf_of(b"\xff" * 200, ConfBounds(body=300))

    assert len(conf["body"].encode()) <= 300
    assert base64.b64decode(conf["body_base64"]) == b"\xff" * 200
    assert conf["truncated"] == 200


def test_an_inflated_body_is_measured_inflated():
    conf = conf_of(gzip.compress(b"y" * 5000), ConfBounds(body=100), content_encoding="gzip")

    assert (conf["body"], conf["truncated"]) == ("y" * 100, 5000)


def test_the_largest_headers_are_left_out_and_named():
    headers = {"small": 1, "large": "x" * 900, "larger": "x" * 2000, "middle": "x" * 50}

    conf = conf_of("b", ConfBounds(headers=200), headers=headers)

    assert conf["headers"] == {"small": 1, "middle": "x" * 50}
    assert conf["truncated_headers"] == ["larger", "large"]


def test_headers_within_the_bound_are_as_they_were():
    conf = conf_of("b", headers={"b": 1, "a": "x" * 60_000})

    assert list(conf["headers"]) == ["b", "a"]
    assert "truncated_headers" not in conf


def test_a_marker_is_bounded_as_well():
    payload = MarkerPayload.of(message("x" * 5000, headers={"k": "y" * 5000}), ConfBounds(body=100, headers=100))

    assert len(payload.body) < 400
    assert json.loads(payload.body)["truncated"] == 5000


def test_every_header_type_makes_a_conf_that_is_json():
    """B29: T, x and D, and what may be inside of tables."""
    headers = {
        "T": datetime.fromtimestamp(1772000000, timezone.utc),
        "x": b"\x00\xff",
        "D": Decimal("3.14"),
        "table": {b"k": [datetime(2026, 1, 1), Decimal(1), float("nan"), None]},
    }

    conf = conf_of("b", headers=headers)

    assert json.loads(json.dumps(conf, allow_nan=False))["headers"] == {
        "T": "2026-02-25T06:13:20+00:00",
        "x": {"base64": "AP8="},
        "D": "3.14",
        "table": {"k": ["2026-01-01T00:00:00+00:00", "1", "NaN", None]},
    }


@given(st.binary(max_size=400), st.dictionaries(st.text(max_size=5), st.text(max_size=80)), st.integers(1, 300))
def test_whatever_the_message_its_conf_is_bounded_json(body, headers, size):
    conf = conf_of(body, ConfBounds(body=size, headers=size), headers=headers)

    assert len(conf["body"].encode()) <= size
    assert len(json.dumps(conf["headers"]).encode()) <= size + 2
    assert set(conf.get("truncated_headers", [])) | set(conf["headers"]) == set(
        conf_of(body, headers=headers)["headers"]
    )
    json.dumps(conf, allow_nan=False)
    if len(body) > size:
        assert conf["truncated"] == len(body)
