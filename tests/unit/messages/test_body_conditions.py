"""A `body.` condition walks a JSON body; what does not read as JSON is an ERROR, never a miss."""

import gzip
import json
import zlib

import pytest
from factories import message

from airflow_provider_rmq.messages.bodies import MAX_INFLATED_BYTES
from airflow_provider_rmq.messages.filters import FilterVerdict, MessageFilter

MATCH, MISS, ERROR = FilterVerdict.MATCH, FilterVerdict.MISS, FilterVerdict.ERROR


@pytest.mark.parametrize(
    ("body", "conditions", "verdict"),
    [
        ('{"a": {"b": 1}}', {"body.a.b": 1}, MATCH),
        ('{"a": {"b": 1}}', {"body.a.c": 1}, MISS),
        ('{"a": [1]}', {"body.a.0": 1}, MISS),
        ('{"a": null}', {"body.a": None}, MATCH),
        ("{}", {"body.a": None}, MISS),
        ('{"a": 1, "a": 2}', {"body.a": 2}, MATCH),
        ('{"a": 9007199254740993}', {"body.a": 9007199254740993}, MATCH),
        ('{"a": 9007199254740993}', {"body.a": 9007199254740992}, MISS),
        ('{"a": 1e999}', {"body.a": 1}, MISS),
        (b"\xef\xbb\xbf" + b'{"a": 1}', {"body.a": 1}, MATCH),
        *[(body, {"body.a": 1}, MISS) for body in ("5", "null", '"x"', '[{"a": 1}]', "true")],
        *[(body, {"body.a": 1}, ERROR) for body in ("", " ", "\x00", "{", "nope", b"\xff\xfe{{", b'{"a":"Jos\xe9"}')],
        ('{"a": NaN}', {"body.a": 1}, ERROR),
        ("[" * 100_000, {"body.a": 1}, ERROR),
        ('{"a": ' + "9" * 5000 + "}", {"body.a": 1}, ERROR),
    ],
)
def test_a_body_condition_has_this_verdict(body, conditions, verdict):
    """B11, B13, R13 (byte order mark), R15 (valid JSON that is no object)."""
    found, reason = MessageFilter(conditions).evaluate_message(message(body))

    assert found is verdict
    assert (reason is not None) is (verdict is ERROR)


def test_a_header_that_misses_decides_before_the_body_is_parsed():
    message_filter = MessageFilter({"body.a": 1, "kind": "order"})

    assert message_filter.evaluate_message(message("no json"))[0] is MISS


@pytest.mark.parametrize(
    ("encoding", "compress"), [("gzip", gzip.compress), ("x-gzip", gzip.compress), ("deflate", zlib.compress)]
)
def test_a_compressed_body_is_inflated(encoding, compress):
    """B09."""
    packed = message(compress(b'{"status": "active"}'), content_encoding=encoding)

    assert MessageFilter({"body.status": "active"}).evaluate_message(packed)[0] is MATCH
    assert packed.text() == '{"status": "active"}'


def test_several_gzip_members_are_one_body():
    packed = message(gzip.compress(b'{"a":') + gzip.compress(b"1}"), content_encoding="gzip")

    assert MessageFilter({"body.a": 1}).evaluate_message(packed)[0] is MATCH


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(gzip.compress(b"0" * (MAX_INFLATED_BYTES + 1)), id="too large"),
        pytest.param(gzip.compress(b'{"a": 1}')[:-9], id="cut off"),
        pytest.param(gzip.compress(b'{"a": 1}') + b"rest", id="rest behind it"),
    ],
)
def test_a_compressed_body_that_cannot_be_inflated_is_an_error(body):
    """B09: a bomb stays under the cap; never a miss, so never deleted."""
    verdict, reason = MessageFilter({"body.a": 1}).evaluate_message(message(body, content_encoding="gzip"))

    assert verdict is ERROR
    assert str(len(body)) in reason


@pytest.mark.parametrize("encoding", ["utf-8", "gzip", "deflate", "br"])
def test_an_encoding_the_body_does_not_carry_is_ignored(encoding):
    plain = message(json.dumps({"a": 1}), content_encoding=encoding)

    assert MessageFilter({"body.a": 1}).evaluate_message(plain)[0] is MATCH
