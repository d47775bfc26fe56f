"""The trigger's stored form is fixed by tasks that earlier releases deferred."""

import pytest

from airflow_provider_rmq.triggers.rmq import RMQTrigger

STORED = {
    "rmq_conn_id": "c",
    "queue_name": "q",
    "filter_data": {"filter_headers": None},
    "poll_interval": 2.0,
    "mode": "push",
    "message_wait_timeout": 60.0,
    "ack_unmatched": True,
}


def test_it_is_stored_as_it_was_made():
    assert RMQTrigger(**STORED).serialize() == ("airflow_provider_rmq.triggers.rmq.RMQTrigger", STORED)


def test_arguments_may_be_given_by_position_in_the_published_order():
    assert RMQTrigger(*STORED.values()).serialize()[1] == STORED


def test_a_row_of_an_older_release_lacks_the_later_arguments():
    assert RMQTrigger(rmq_conn_id="c", queue_name="q", filter_data=None, poll_interval=5.0).serialize()[1] == {
        **STORED,
        "filter_data": {},
        "poll_interval": 5.0,
        "mode": "pull",
        "message_wait_timeout": None,
        "ack_unmatched": False,
    }


@pytest.mark.parametrize(
    ("given", "words"), [({"ack_unmatched": "false"}, "ack_unmatched"), ({"mode": "poke"}, "pull, push")]
)
def test_a_wrong_argument_is_named(given, words):
    with pytest.raises(ValueError, match=words):
        RMQTrigger("c", "q", **given)
