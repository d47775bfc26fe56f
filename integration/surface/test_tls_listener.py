"""TLS with the broker's certificate checked, and with a client certificate."""

import pytest

from airflow_provider_rmq.hooks.rmq import RMQHook
from integration.lab.broker_lab import BrokerLab
from integration.lab.lab_state import LabSettings


@pytest.fixture(scope="module")
def tls_lab(tmp_path_factory):
    with BrokerLab(tmp_path_factory.mktemp("tls")) as lab:
        lab.up(LabSettings(tls=True, settings=("ssl_options.fail_if_no_peer_cert=true",)))
        yield lab


@pytest.fixture
def files(tls_lab):
    return {
        "ca_certs": f"{tls_lab.state_dir}/tls/ca.pem",
        "certfile": f"{tls_lab.state_dir}/tls/client.pem",
        "keyfile": f"{tls_lab.state_dir}/tls/client.key",
    }


@pytest.fixture
def hook_with(tls_lab, airflow_connection):
    def make(extra, host="localhost", port=None):
        airflow_connection(
            "secure",
            extra=extra,
            host=host,
            port=port or tls_lab.node().amqps,
            login="guest",
            password="guest",
            schema="/",
        )
        return RMQHook("secure", retry_count=1)

    return make


def works(hook):
    with hook:
        hook.queue_declare("rmqtest.tls", auto_delete=True)
        hook.basic_publish("", "rmqtest.tls", b"x" * 200_000)
        return hook.consume_messages("rmqtest.tls", auto_ack=True)[0]["body_bytes"] == b"x" * 200_000


def test_a_client_certificate_opens_the_listener(hook_with, files):
    assert works(hook_with({"ssl_enabled": True, **files}))


def test_nested_options_open_it_too(hook_with, files):
    assert works(hook_with({"ssl_enabled": True, "ssl_options": {**files, "cert_reqs": "CERT_REQUIRED"}}))


def test_without_verification_the_certificate_is_not_looked_at(hook_with, files):
    del files["ca_certs"]

    assert works(hook_with({"ssl_enabled": True, "cert_reqs": "CERT_NONE", **files}, host="127.0.0.1"))


def test_an_unknown_authority_is_refused_in_words(hook_with, files):
    del files["ca_certs"]

    good, text = hook_with({"ssl_enabled": True, **files}).test_connection()

    assert good is False
    assert "the broker's certificate is not accepted" in text
    assert "ca_certs" in text


def test_the_host_name_is_checked(hook_with, files):
    good, text = hook_with({"ssl_enabled": True, **files}, host="127.0.0.2").test_connection()

    assert good is False
    assert "127.0.0.2" in text


def test_a_missing_client_certificate_is_refused(hook_with, files):
    good, _ = hook_with({"ssl_enabled": True, "ca_certs": files["ca_certs"]}).test_connection()

    assert good is False


def test_a_plain_connection_to_the_tls_port_is_told_so(hook_with):
    good, text = hook_with({}).test_connection()

    assert good is False
    assert "set ssl_enabled" in text


def test_a_tls_connection_to_the_plain_port_is_told_so(hook_with, files, tls_lab):
    good, text = hook_with({"ssl_enabled": True, **files}, port=tls_lab.node().amqp).test_connection()

    assert good is False
    assert "a port without TLS" in text
