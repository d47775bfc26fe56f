"""What is declared and bound, in which order, and what a refusal becomes."""

import asyncio
from types import SimpleNamespace

import pytest
from aiormq.exceptions import ChannelAccessRefused, ChannelInvalidStateError, ChannelPreconditionFailed

from airflow_provider_rmq.broker.declaring import Declarer
from airflow_provider_rmq.broker.topology import Binding, exchange_topology, pending_topology, sub_queue_topology
from airflow_provider_rmq.errors import AccessRefused, BrokerError, ConnectionLost, TopologyConflict

pytestmark = pytest.mark.looptime


class Broker:
    """Stands for pool, connection, channel and queue; keeps what was asked."""

    def __init__(self):
        self.asked = []
        self.error = None
        self.silent = False
        self.is_closed = False

    async def connection(self, conn_id):
        return SimpleNamespace(settings=SimpleNamespace(rpc_timeout=30.0), amqp=self)

    def channel(self, *, publisher_confirms):
        self.asked.append("channel")
        return self

    async def initialize(self):
        await self.answer()

    async def close(self, *args):
        self.asked.append("close")

    async def declare_exchange(self, name, kind, *, durable, arguments):
        assert durable
        await self.answer(f"exchange {name} {kind} {arguments}")

    async def declare_queue(self, name, *, durable, arguments):
        assert durable
        await self.answer(f"queue {name} {arguments}")

    async def get_queue(self, name, *, ensure):
        assert not ensure
        return SimpleNamespace(
            bind=lambda *to: self.answer(f"bind {to}"), unbind=lambda *to: self.answer(f"unbind {to}")
        )

    async def answer(self, what=None):
        if what:
            self.asked.append(what)
        if self.silent:
            await asyncio.sleep(10_000)
        if self.error and what:
            raise self.error


@pytest.fixture
def broker():
    return Broker()


async def test_exchanges_come_before_queues_and_queues_before_bindings_on_a_channel_of_their_own(broker):
    await Declarer(broker).declare("c", exchange_topology("e", mirror=True))

    assert broker.asked == [
        "channel",
        "exchange e topic {'alternate-exchange': 'e.unrouted'}",
        "exchange e.unrouted fanout None",
        "queue e.unrouted {'x-message-ttl': 28800000}",
        "queue e.log {'x-message-ttl': 28800000}",
        "bind ('e.unrouted', 'e.unrouted')",
        "bind ('e', '#')",
        "close",
    ]


async def test_what_is_wanted_is_bound_before_the_rest_is_unbound(broker):
    await Declarer(broker).rebind("c", "q", [Binding("e", "new")], [Binding("before", "old")])

    assert broker.asked[1:-1] == ["bind ('e', 'new')", "unbind ('before', 'old')"]


CONFLICT = (
    "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'rmq_watcher.pending.d' in vhost '/': "
    "received the value '1' of type 'signedint' but current is none"
)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (ChannelPreconditionFailed(CONFLICT), TopologyConflict, ["x-max-length", "the value '1'", "none"]),
        (
            ChannelAccessRefused("ACCESS_REFUSED - access to queue 'q' in vhost '/' refused for user 'u'"),
            AccessRefused,
            ["'u'"],
        ),
        (ChannelInvalidStateError(), ConnectionLost, ["ChannelInvalidStateError"]),
        (ConnectionResetError(), ConnectionLost, ["ConnectionResetError"]),
    ],
)
async def test_a_refusal_names_the_connection_the_object_and_both_values(broker, error, kind, words):
    broker.error = error

    with pytest.raises(kind) as caught:
        await Declarer(broker).declare("c", pending_topology("d"))

    assert str(caught.value).startswith("c: declare queue rmq_watcher.pending.d")
    assert all(word in str(caught.value) for word in words)
    assert isinstance(caught.value, BrokerError)
    assert broker.asked[-1] == "close"


async def test_no_answer_ends_within_the_bound(broker, looptime):
    broker.silent = True

    with pytest.raises(ConnectionLost, match="no answer within 30 s"):
        await Declarer(broker).declare("c", sub_queue_topology("d"))

    assert looptime <= 60
