"""Properties are checked before they are published, and read whatever stands in them."""

from datetime import timedelta

import pika
import pytest

from airflow_provider_rmq.broker.properties import (
    Properties,
    UndecodableHeaders,
    expiration_text,
    publish_properties,
)


@pytest.mark.parametrize(
    ("given", "text"), [(None, None), (60000, "60000"), ("60000", "60000"), (0, "0"), (timedelta(minutes=1), "60000")]
)
def test_an_expiration_is_whole_milliseconds(given, text):
    """B21."""
    assert expiration_text(given) == text


@pytest.mark.parametrize("given", ["60s", "-1", -1, "", " 60000", 1.5, True, 2**32, "٣"])
def test_an_expiration_the_broker_would_refuse_never_gets_there(given):
    """B21."""
    with pytest.raises(ValueError, match=r"expiration.*milliseconds"):
        expiration_text(given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"delivery_mode": 3}, "delivery_mode"),
        ({"priority": -1}, "priority"),
        ({"priority": 256}, "priority"),
        ({"headers": "x"}, "headers"),
        ({"content_type": 5}, "content_type"),
        ({"message_id": "m" * 256}, "message_id is 256 bytes"),
    ],
)
def test_a_wrong_property_is_refused_with_its_name(given, words):
    with pytest.raises(ValueError, match=words):
        publish_properties(**given)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"content_type": "a", "headers": {"x": 1.5}, "delivery_mode": 2, "priority": 9, "timestamp": 1772000000},
        {"correlation_id": "c", "reply_to": "r", "expiration": "1", "message_id": "m", "type": "t"},
        {"user_id": "u", "app_id": "a", "cluster_id": "k", "content_encoding": "gzip", "headers": {}},
    ],
)
def test_what_is_encoded_is_decoded_again(fields):
    encoded = b"".join(Properties(**fields).encode())

    decoded = Properties().decode(encoded)

    assert {name: getattr(decoded, name) for name in fields} == fields


def test_our_encoding_is_what_pika_reads_and_the_other_way_round():
    fields = {"content_type": "a", "headers": {"x": [1, "b"]}, "delivery_mode": 2, "message_id": "m", "app_id": "z"}

    by_pika = pika.BasicProperties().decode(b"".join(Properties(**fields).encode()))
    by_us = Properties().decode(b"".join(pika.BasicProperties(**fields).encode()))

    for name, value in fields.items():
        assert getattr(by_pika, name) == getattr(by_us, name) == value


def test_headers_nothing_can_read_keep_the_other_properties_and_the_reason():
    encoded = b"".join(Properties(headers={"a": 1}, message_id="m").encode()).replace(
        b"I\x00\x00\x00\x01", b"?\x00\x00\x00\x01"
    )

    decoded = Properties().decode(encoded)

    assert isinstance(decoded.headers, UndecodableHeaders)
    assert "type code" in decoded.headers.reason
    assert decoded.message_id == "m"


def test_pikas_properties_can_be_given():
    given = pika.BasicProperties(headers={"ratio": 1.5}, delivery_mode=2)

    assert Properties.of(given).headers == {"ratio": 1.5}
    assert Properties.of(None).headers is None
