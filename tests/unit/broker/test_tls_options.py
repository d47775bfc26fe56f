"""TLS is switched on by `ssl_enabled` and described flat or in `ssl_options`."""

import ssl

import pytest

from airflow_provider_rmq.broker.settings import ConnectionSettings, build_amqp_connection
from airflow_provider_rmq.broker.tls import build_ssl_context
from airflow_provider_rmq.compat import ConnectionRecord


@pytest.mark.parametrize("value", [None, False, 0, "", "false", "False", "no", "0"])
def test_without_ssl_enabled_there_is_no_context(value):
    assert build_ssl_context({"ssl_enabled": value, "ca_certs": "/nowhere"}) is None


def test_a_context_checks_certificate_and_host_name():
    context = build_ssl_context({"ssl_enabled": True})

    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname is True


@pytest.mark.parametrize(
    "extra",
    [
        {"cert_reqs": "CERT_NONE"},
        {"ssl_options": {"cert_reqs": "CERT_NONE"}},
        {"ssl_options": '{"cert_reqs": "CERT_NONE"}', "cert_reqs": "CERT_REQUIRED"},
    ],
)
def test_cert_none_switches_both_checks_off_and_ssl_options_win(extra):
    context = build_ssl_context({"ssl_enabled": True, **extra})

    assert context.verify_mode is ssl.CERT_NONE
    assert context.check_hostname is False


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"ssl_options": "{no json"}, "Invalid JSON in ssl_options"),
        ({"ssl_options": "[1]"}, "ssl_options"),
        ({"cert_reqs": "NONE"}, "cert_reqs.*CERT_REQUIRED.*'NONE'"),
        ({"ca_certs": "/nowhere/ca.pem"}, "/nowhere/ca.pem"),
        ({"certfile": "/nowhere/c.pem", "keyfile": "/nowhere/k.pem"}, "/nowhere/c.pem"),
    ],
)
def test_a_wrong_tls_option_is_refused_with_its_value(extra, words):
    with pytest.raises(ValueError, match=words):
        build_ssl_context({"ssl_enabled": True, **extra})


def test_a_certificate_without_its_key_is_not_loaded():
    assert build_ssl_context({"ssl_enabled": True, "certfile": "/nowhere/c.pem"}) is not None


def test_the_settings_carry_url_scheme_and_context():
    plain = ConnectionSettings.from_record(ConnectionRecord(conn_id="c"))
    secure = ConnectionSettings.from_record(ConnectionRecord(conn_id="c", extra={"ssl_enabled": True}))

    assert plain.url(plain.endpoints[0]).startswith("amqp://")
    assert plain.ssl_context() is None
    assert secure.url(secure.endpoints[0]).startswith("amqps://")
    assert isinstance(secure.ssl_context(), ssl.SSLContext)


def test_an_airflow_connection_becomes_url_and_context():
    class Connection:
        conn_id, host, port, login, password, schema = "c", "h", 5700, "u", "p", "v/w"
        extra_dejson = {"heartbeat": 20}  # noqa: RUF012

    assert build_amqp_connection(Connection()) == ("amqp://u:p@h:5700/v%2Fw?heartbeat=20", None)
    assert build_amqp_connection(Connection(), "x")[0].endswith("/x?heartbeat=20")
