"""The helpers for code that consumes with aio-pika itself follow the same policy."""

import logging

import pytest

from airflow_provider_rmq.utils import amqp
from airflow_provider_rmq.utils.filters import MessageFilter


class Incoming:
    content_encoding = None

    def __init__(self, body):
        self.headers = {}
        self.body = body
        self.frames = []

    async def ack(self):
        self.frames.append("ack")

    async def nack(self, requeue):
        self.frames.append(("nack", requeue))


@pytest.mark.parametrize(
    ("body", "ack_unmatched", "frames", "counters"),
    [
        (b'{"a": 1}', False, ["ack"], (0, 0, 0)),
        (b'{"a": 2}', False, [("nack", True)], (1, 0, 0)),
        (b'{"a": 2}', True, ["ack"], (1, 1, 0)),
        (b"nope", True, [("nack", True)], (0, 0, 1)),
    ],
)
async def test_a_message_is_answered_once_and_then_counted(monkeypatch, body, ack_unmatched, frames, counters):
    monkeypatch.setattr(amqp, "REQUEUE_PAUSE", 0)
    incoming = Incoming(body)
    state = amqp.FilterMissState("orders", logging.getLogger("test"), ack_unmatched=ack_unmatched)

    matched = await amqp.match_and_ack(incoming, MessageFilter({"body.a": 1}), state)

    assert matched is (body == b'{"a": 1}')
    assert incoming.frames == frames
    assert (state.streak, state.dropped, state.error_streak) == counters
