"""The host field names one broker or several, by name or address, with or without ports."""

import pytest

from airflow_provider_rmq.broker.settings import ConnectionSettings, Endpoint, parse_endpoints
from airflow_provider_rmq.compat import ConnectionRecord


@pytest.mark.parametrize(
    ("host", "endpoints"),
    [
        (None, ["localhost:5672"]),
        ("", ["localhost:5672"]),
        ("rabbit", ["rabbit:5672"]),
        ("rabbit:5673", ["rabbit:5673"]),
        ("a, b:5673,,c", ["a:5672", "b:5673", "c:5672"]),
        ("::1", ["[::1]:5672"]),
        ("[::1]", ["[::1]:5672"]),
        ("[::1]:5673,127.0.0.1", ["[::1]:5673", "127.0.0.1:5672"]),
    ],
)
def test_hosts_are_read_in_their_order(host, endpoints):
    """B49: lists, ports, IPv6 with and without brackets."""
    assert [str(endpoint) for endpoint in parse_endpoints(host, 5672)] == endpoints


@pytest.mark.parametrize("host", ["a:b", "a:0", "a:65536", "[::1", "[::1]x", "amqp://a", "u@a", ":5672"])
def test_a_host_that_cannot_be_read_is_refused_with_its_text(host):
    with pytest.raises(ValueError, match="host"):
        parse_endpoints(f"good,{host}", 5672)


@pytest.mark.parametrize(
    ("port", "extra", "expected"),
    [(None, {}, 5672), (None, {"ssl_enabled": True}, 5671), (5700, {"ssl_enabled": True}, 5700)],
)
def test_the_default_port_depends_on_tls(port, extra, expected):
    record = ConnectionRecord(conn_id="c", host="a,b:9", port=port, extra=extra)

    assert ConnectionSettings.from_record(record).endpoints == (Endpoint("a", expected), Endpoint("b", 9))
