"""What a marker carries of a message, and the conf that its end gives the DAG."""

import json

import pytest
from factories import message

from airflow_provider_rmq.messages.markers import PAYLOAD_HEADER, MarkerPayload, cooldown_conf, payload_header

EMPTY = {
    "source": "cooldown",
    "dag_id": "my_dag",
    "body": "",
    "headers": {},
    "routing_key": "my_dag",
    "queue": "rmq_watcher.fire",
    "subscription_id": None,
}


def marker(body=b"", **headers):
    return message(body, headers=headers, routing_key="my_dag", exchange="rmq_watcher.fire", queue="rmq_watcher.fire")


def test_a_marker_stands_for_no_message():
    assert cooldown_conf(marker()) == EMPTY


def test_what_dead_lettering_added_to_a_marker_is_not_the_dags_business():
    assert cooldown_conf(marker(**{"x-death": [{"queue": "rmq_watcher.pending.my_dag"}]})) == EMPTY


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        ('{"n": 1}', {"kind": "order", "tags": ["a", None], "n": {"deep": 1.5}}),
        ("Jürgen \U0001f600", {}),
        ("", {"flag": None}),
        ("a" * 100_000, {"raw": b"\xff\xfe"}),
    ],
)
def test_a_kept_message_arrives_as_without_cooldown(body, headers):
    original = message(body, headers=headers)
    direct = original.as_conf(subscription_id=1)

    conf = cooldown_conf(marker(MarkerPayload.of(original).body, **payload_header()))

    assert conf == {**EMPTY, "body": direct["body"], "headers": direct["headers"]}


def test_a_kept_body_that_is_no_text_arrives_losslessly():
    original = message(b"\xff\xfe\x00")

    conf = cooldown_conf(marker(MarkerPayload.of(original).body, **payload_header()))

    assert conf["body_base64"] == original.as_conf(subscription_id=None)["body_base64"]


@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        b"[1]",
        b"{}",
        b'{"body": 1, "headers": {}}',
        b'{"body": "", "headers": []}',
        b'{"body": "", "headers": {"a": NaN}}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_somebody_elses_message_with_our_header_gives_nothing(body):
    assert cooldown_conf(marker(body, **payload_header())) == EMPTY


def test_a_form_that_this_version_does_not_know_gives_nothing():
    body = MarkerPayload.of(message("x")).body

    assert cooldown_conf(marker(body, **{PAYLOAD_HEADER: 2})) == EMPTY


def test_a_conf_is_always_json():
    conf = cooldown_conf(marker(MarkerPayload.of(message("x", headers={"n": float("nan")})).body, **payload_header()))

    json.dumps(conf, allow_nan=False)
