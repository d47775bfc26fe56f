"""A refusal of the broker says what to do, whichever client library reports it."""

import pika.exceptions
import pytest

from airflow_provider_rmq.broker.refusals import Operation, refusal
from airflow_provider_rmq.errors import AccessRefused, BrokerError, QueueMissing, TopologyConflict

DECLARE = Operation(what="declare queue 'q'")
CONSUME = Operation(what="take messages from queue 'q'", queue_permission="read")


@pytest.mark.parametrize(
    ("code", "text", "operation", "kind", "words"),
    [
        (
            403,
            "ACCESS_REFUSED - access to queue 'q' in vhost 'v' refused for user 'app'",
            CONSUME,
            AccessRefused,
            ["'app' has no read permission on queue 'q'", "rabbitmqctl set_permissions -p v app"],
        ),
        (
            403,
            "ACCESS_REFUSED - configure access to queue 'q' in vhost 'v' refused for user 'app'",
            CONSUME,
            AccessRefused,
            ["'app' has no configure permission on queue 'q'"],
        ),
        (403, "ACCESS_REFUSED - queue name 'amq.x' contains reserved prefix 'amq.*'", DECLARE, AccessRefused, ["amq."]),
        (404, "NOT_FOUND - no queue 'q' in vhost '/'", CONSUME, QueueMissing, ["no queue 'q' in vhost '/'"]),
        (404, "NOT_FOUND - no exchange 'e' in vhost '/'", CONSUME, BrokerError, ["no exchange 'e'"]),
        (
            405,
            "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'.",
            DECLARE,
            TopologyConflict,
            ["exclusive to the connection that declared it", "owner"],
        ),
        (
            406,
            (
                "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': "
                "received the value '5' of type 'signedint' but current is none"
            ),
            DECLARE,
            TopologyConflict,
            ["another x-message-ttl: given was the value '5' of type 'signedint', it has none"],
        ),
        (
            406,
            "PRECONDITION_FAILED - message size 17 larger than max size 16",
            DECLARE,
            BrokerError,
            ["17 bytes exceeds", "16 bytes"],
        ),
        (
            406,
            "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out",
            CONSUME,
            BrokerError,
            ["consumer_timeout", "back in the queue"],
        ),
        (
            540,
            "NOT_IMPLEMENTED - queue 'q' in vhost '/' does not support global qos",
            CONSUME,
            BrokerError,
            ["leave global_qos out and set prefetch_count"],
        ),
        (
            541,
            "INTERNAL_ERROR - Feature `transient_nonexcl_queues` is deprecated.",
            DECLARE,
            BrokerError,
            ["set durable=True"],
        ),
        (320, "CONNECTION_FORCED - broker forced connection closure", DECLARE, BrokerError, ["CONNECTION_FORCED"]),
    ],
)
def test_a_refusal_names_what_was_asked_the_answer_and_the_way_out(code, text, operation, kind, words):
    error = refusal(pika.exceptions.ChannelClosedByBroker(code, text), operation)

    assert type(error) is kind
    assert str(error).startswith(f"{operation.what}: {code} ")
    for word in words:
        assert word in str(error)


def test_an_error_without_an_answer_of_the_broker_is_no_refusal():
    assert refusal(ConnectionResetError("reset"), DECLARE) is None
    assert refusal(pika.exceptions.StreamLostError("Stream connection lost"), DECLARE) is None


def test_aiormqs_errors_are_read_too():
    from aiormq.exceptions import ChannelNotFoundEntity

    error = refusal(ChannelNotFoundEntity("NOT_FOUND - no queue 'q' in vhost '/'"), CONSUME)

    assert type(error) is QueueMissing
