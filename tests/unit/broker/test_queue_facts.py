"""What the management API says of a queue, read for people (B43, B47)."""

import pytest

from airflow_provider_rmq.broker.queue_facts import QueueFacts

OLD, NEW = (3, 10, 8), (4, 0, 5)


@pytest.mark.parametrize(
    ("described", "version", "limit", "is_dead_lettered"),
    [
        ({"type": "quorum", "arguments": {"x-delivery-limit": 3}}, OLD, 3, False),
        ({"type": "quorum", "arguments": {}}, OLD, None, False),
        ({"type": "quorum", "arguments": {}}, NEW, 20, False),
        ({"type": "quorum", "arguments": {}}, (), None, False),
        ({"type": "quorum", "arguments": {"x-delivery-limit": -1}}, NEW, None, False),
        ({"type": "classic", "arguments": {"x-delivery-limit": 3}}, NEW, None, False),
        ({"type": "quorum", "effective_policy_definition": {"delivery-limit": 5}}, NEW, 5, False),
        (
            {
                "type": "quorum",
                "arguments": {"x-delivery-limit": 9},
                "effective_policy_definition": {"delivery-limit": 5, "dead-letter-exchange": "dlx"},
            },
            OLD,
            5,
            True,
        ),
        ({"type": "quorum", "arguments": {"x-dead-letter-exchange": "dlx"}}, NEW, 20, True),
        ({"arguments": None, "effective_policy_definition": []}, NEW, None, False),
    ],
)
def test_the_limit_that_counts_and_whether_anything_keeps_what_it_drops(described, version, limit, is_dead_lettered):
    found = QueueFacts.of(described, version)

    assert (found.delivery_limit, found.is_dead_lettered) == (limit, is_dead_lettered)


def test_the_owner_of_an_exclusive_queue_is_its_connection():
    described = {"owner_pid_details": {"name": "127.0.0.1:39400 -> 127.0.0.1:5672"}}

    assert QueueFacts.of(described, NEW).owner == "127.0.0.1:39400 -> 127.0.0.1:5672"
    assert QueueFacts.of({}, NEW).owner is None
