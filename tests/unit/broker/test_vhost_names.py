"""One function decides which vhost a schema field means."""

from urllib.parse import unquote, urlsplit

import pytest

from airflow_provider_rmq.broker.settings import ConnectionSettings, parse_vhost
from airflow_provider_rmq.compat import ConnectionRecord


@pytest.mark.parametrize(
    ("schema", "vhost"),
    [
        (None, "/"),
        ("", "/"),
        ("/", "/"),
        ("%2F", "/"),
        ("%2f", "/"),
        ("//", "//"),
        ("a/b", "a/b"),
        ("a%2Fb", "a/b"),
        ("ü", "ü"),
        ("a b", "a b"),
        ("100%", "100%"),
        ("a%20b", "a%20b"),
        ("%252f", "%2f"),
    ],
)
def test_a_schema_means_this_vhost_in_every_place(schema, vhost):
    """B37, R25."""
    settings = ConnectionSettings.from_record(ConnectionRecord(conn_id="c", schema=schema))

    assert settings.vhost == vhost
    assert unquote(urlsplit(settings.url(settings.endpoints[0])).path.removeprefix("/")) == vhost


def test_the_hooks_vhost_comes_before_the_schema():
    record = ConnectionRecord(conn_id="c", schema="orders")

    assert ConnectionSettings.from_record(record, vhost="%2F").vhost == "/"
    assert ConnectionSettings.from_record(record, vhost="other").vhost == "other"


def test_a_vhost_that_one_client_library_cannot_address_is_refused():
    with pytest.raises(ValueError, match="aio-pika"):
        parse_vhost("%252F")
