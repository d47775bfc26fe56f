"""Timing and other extras: what is wrong is replaced by the default and named."""

import logging
import uuid

import pytest

from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.compat import ConnectionRecord

LOGGER = "airflow_provider_rmq.broker.settings"


def read(conn_id="c", **extra):
    return ConnectionSettings.from_record(ConnectionRecord(conn_id=conn_id, extra=extra))


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.WARNING, logger=LOGGER)
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("value", "for_days", "for_a_task"),
    [(60, 60, 60), ("60", 60, 60), (59.9, 59, 59), (1, 1, 1), (0, 0, 0)],
)
def test_a_heartbeat_is_whole_seconds(value, for_days, for_a_task):
    settings = read(heartbeat=value)

    assert (settings.heartbeat, settings.blocking_heartbeat) == (for_days, for_a_task)


def test_without_a_heartbeat_each_kind_of_connection_has_its_own():
    assert (read().heartbeat, read().blocking_heartbeat) == (30, 600)


@pytest.mark.parametrize("value", [-1, 0.5, "abc", None, True, [], float("nan"), float("inf")])
def test_a_heartbeat_that_is_no_number_of_seconds_is_replaced_and_named_once(value, lines):
    settings = read(heartbeat=value)

    assert (settings.heartbeat, settings.blocking_heartbeat) == (30, 600)
    assert len(lines()) == 1
    assert "heartbeat" in lines()[0]


def test_heartbeats_switched_off_are_named(lines):
    read(heartbeat=0)

    assert len(lines()) == 1
    assert "undetected" in lines()[0]


@pytest.mark.parametrize(
    ("key", "default"), [("connect_timeout", 15), ("rpc_timeout", 30), ("blocked_connection_timeout", 300)]
)
@pytest.mark.parametrize("value", [0, -1, "x", None, True, float("inf"), {}])
def test_a_timeout_that_is_not_above_zero_is_replaced_and_named(key, default, value, lines):
    assert getattr(read(**{key: value}), key) == default
    assert len(lines()) == 1
    assert key in lines()[0]


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("http://h:15672//", "http://h:15672"),
        ("http://h", "http://h"),
        ("", None),
        ("/", None),
        (5, None),
        (None, None),
    ],
)
def test_the_management_url_loses_its_trailing_slashes(value, url):
    assert read(management_url=value).management_url == url


def test_an_unknown_extra_is_named_once(lines):
    conn_id = uuid.uuid4().hex

    for _ in range(3):
        read(conn_id, heart_beat=5, ssl_enabled=False, ca_certs="")

    assert len(lines()) == 1
    assert "heart_beat" in lines()[0]
    assert conn_id in lines()[0]


def test_missing_credentials_are_guest_and_known_to_be_missing():
    assert (read().login, read().password, read().has_credentials) == ("guest", "guest", False)


def test_a_password_shows_in_no_repr():
    settings = ConnectionSettings.from_record(ConnectionRecord(conn_id="c", login="u", password="geheim"))

    assert "geheim" not in repr(settings)
    assert "geheim" not in str(settings)


def test_login_and_password_with_every_special_character_survive_the_url():
    from yarl import URL

    secret = "p@ss:w/o?r#d%2F +ü\"'\\&=;"
    settings = ConnectionSettings.from_record(ConnectionRecord(conn_id="c", login="u@x", password=secret))
    url = URL(settings.url(settings.endpoints[0]))

    assert (url.user, url.password) == ("u@x", secret)
