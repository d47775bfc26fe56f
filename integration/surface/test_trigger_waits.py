"""`RMQTrigger` waits in bounded time, hands over one message and leaves the others where they are."""

import asyncio
import gc
import logging
import time

import pytest

from airflow_provider_rmq.triggers import rmq
from airflow_provider_rmq.triggers.rmq import RMQTrigger
from integration.lab.ports import free_port
from integration.lab.waiting import wait_until

MODES = ["pull", "push"]


@pytest.fixture
def trigger(queue_name, airflow_connection):
    def make(conn_id="rmq_default", **given):
        return RMQTrigger(conn_id, queue_name, **{"poll_interval": 0.2, **given})

    return make


async def event_of(made, within=10):
    """The first event, as the triggerer takes it; then the generator is closed, as at the end of `dag.test()`."""
    running = made.run()
    try:
        return (await asyncio.wait_for(anext(running), within)).payload
    finally:
        await running.aclose()


async def become(condition, what):
    await asyncio.to_thread(wait_until, condition, 10, what)


async def looked(vhost, queue_name, mode):
    """The trigger is at the queue: consuming it, or between two looks."""
    if mode == "push":
        await become(lambda: vhost.consumers(queue_name) == 1, "the consumer")
        return
    await asyncio.to_thread(vhost.publish, queue_name, "miss", expiration="1")
    await become(lambda: vhost.depth(queue_name) == 0, "the queue to be empty")


def left(vhost, queue_name, count):
    wait_until(lambda: vhost.depth(queue_name) == count, 5, f"{count} messages in the queue")


@pytest.mark.parametrize("mode", MODES)
async def test_the_match_is_handed_over_and_the_rest_stays(vhost, queue_name, trigger, mode):
    vhost.declare(queue_name)
    vhost.publish(queue_name, "no json", '{"a": 2}', '{"a": 1}', '{"a": 1}', headers={"k": b"\xff"})

    event = await event_of(trigger(mode=mode, filter_data={"filter_headers": {"body.a": 1}}))

    assert event["status"] == "success"
    assert event["message"] == {
        "body": '{"a": 1}',
        "headers": {"k": {"base64": "/w=="}},
        "routing_key": queue_name,
        "exchange": "",
    }
    left(vhost, queue_name, 3)
    assert vhost.consumers(queue_name) == 0


@pytest.mark.parametrize("mode", MODES)
async def test_with_ack_unmatched_what_the_filter_rejects_is_gone(vhost, queue_name, trigger, mode):
    vhost.declare(queue_name)
    vhost.publish(queue_name, "no json", '{"a": 2}', '{"a": 1}')

    await event_of(trigger(mode=mode, filter_data={"filter_headers": {"body.a": 1}}, ack_unmatched=True))

    left(vhost, queue_name, 1)


@pytest.mark.parametrize("mode", MODES)
async def test_a_message_that_comes_later_is_noticed(vhost, queue_name, trigger, mode):
    vhost.declare(queue_name)
    waiting = asyncio.ensure_future(event_of(trigger(mode=mode, filter_data={"filter_headers": {"late": True}})))
    await looked(vhost, queue_name, mode)
    await asyncio.to_thread(vhost.publish, queue_name, "late", headers={"late": True})

    assert (await waiting)["message"]["body"] == "late"


@pytest.mark.parametrize("mode", MODES)
async def test_a_queue_that_is_declared_later_is_noticed(vhost, queue_name, trigger, mode, caplog):
    caplog.set_level(logging.INFO)
    waiting = asyncio.ensure_future(event_of(trigger(mode=mode)))
    await become(lambda: "No message yet" in caplog.text, "the trigger to miss the queue")
    await asyncio.to_thread(vhost.declare, queue_name)
    await asyncio.to_thread(vhost.publish, queue_name, "late")

    assert (await waiting)["message"]["body"] == "late"


@pytest.mark.parametrize("mode", MODES)
async def test_a_queue_deleted_while_it_is_watched_is_watched_again(vhost, queue_name, trigger, mode):
    vhost.declare(queue_name)
    wanted = trigger(mode=mode, filter_data={"filter_headers": {"body.n": 1}})
    waiting = asyncio.ensure_future(event_of(wanted, within=20))
    await looked(vhost, queue_name, mode)
    await asyncio.to_thread(vhost.delete, queue_name)
    await asyncio.to_thread(vhost.declare, queue_name)
    await asyncio.to_thread(vhost.publish, queue_name, '{"n": 1}')

    assert (await waiting)["message"]["body"] == '{"n": 1}'


async def test_push_mode_gives_up_after_its_wait_timeout(vhost, queue_name, trigger):
    vhost.declare(queue_name)
    vhost.publish(queue_name, "miss")
    started = time.monotonic()

    event = await event_of(trigger(mode="push", message_wait_timeout=1.5, filter_data={"filter_headers": {"never": 1}}))

    assert event == {"status": "timeout"}
    assert time.monotonic() - started > 1.4
    left(vhost, queue_name, 1)


@pytest.mark.parametrize("mode", MODES)
async def test_a_cancelled_trigger_leaves_no_consumer_and_no_message(vhost, queue_name, trigger, mode):
    vhost.declare(queue_name)
    vhost.publish(queue_name, "miss", "miss")
    waiting = asyncio.ensure_future(event_of(trigger(mode=mode, filter_data={"filter_headers": {"never": 1}})))
    await become(lambda: vhost.depth(queue_name) < 2, "the trigger to hold a message")

    waiting.cancel()
    await asyncio.wait({waiting}, timeout=60)

    assert waiting.cancelled()
    left(vhost, queue_name, 2)
    assert vhost.consumers(queue_name) == 0


async def test_misses_wait_before_they_go_back(vhost, queue_name, trigger):
    vhost.declare(queue_name, arguments={"x-queue-type": "quorum"})
    vhost.publish(queue_name, "miss")

    await event_of(trigger(mode="push", message_wait_timeout=4, filter_data={"filter_headers": {"never": 1}}))

    with vhost.channel() as channel:
        wait_until(lambda: vhost.depth(queue_name) == 1, 5, "the message")
        _, properties, _ = channel.basic_get(queue_name, auto_ack=True)
    assert 1 <= properties.headers["x-delivery-count"] <= 3


@pytest.mark.parametrize("mode", MODES)
async def test_a_broker_that_cannot_be_reached_is_an_error_event_in_bounded_time(airflow_connection, trigger, mode):
    airflow_connection("nobody", host="127.0.0.1", port=free_port())

    event = await event_of(trigger("nobody", mode=mode), within=15)

    assert event["status"] == "error"
    assert "127.0.0.1" in event["error"]


async def test_a_push_trigger_costs_messages_it_did_not_look_at_no_delivery(vhost, queue_name, trigger):
    """B43: held misses cost one, the match one, what stands behind it none."""
    vhost.declare(queue_name, arguments={"x-queue-type": "quorum", "x-delivery-limit": 3})
    vhost.publish(queue_name, *["miss"] * 5, "match", *["behind"] * 5)

    accept = {"filter_callable": f"{__name__}:is_match"}
    event = await event_of(trigger(mode="push", filter_data=accept))

    assert event["message"]["body"] == "match"
    left(vhost, queue_name, 10)
    with vhost.channel() as channel:
        counts = {}
        for _ in range(10):
            _, properties, body = channel.basic_get(queue_name, auto_ack=True)
            counts.setdefault(body, []).append((properties.headers or {}).get("x-delivery-count", 0))
    assert counts == {b"miss": [1] * 5, b"behind": [0] * 5}


def is_match(_properties, body):
    return body == "match"


@pytest.mark.parametrize("mode", MODES)
async def test_a_queue_another_connection_owns_is_an_error_event_that_says_so(
    vhost, queue_name, trigger, mode, airflow_connection
):
    """B47, R41: 405 on consume and on a passive declare."""
    with vhost.channel() as owner:
        owner.queue_declare(queue_name, exclusive=True)

        event = await event_of(trigger(mode=mode), within=20)

    assert event["status"] == "error"
    assert "exclusive to the connection that declared it" in event["error"]


async def test_a_queue_with_an_exclusive_consumer_is_an_error_event_that_says_so(vhost, queue_name, trigger):
    """R41."""
    vhost.declare(queue_name)
    with vhost.channel() as reader:
        reader.basic_consume(queue_name, lambda *_: None, exclusive=True)

        event = await event_of(trigger(mode="push"), within=20)

    assert event["status"] == "error"
    assert "list_consumers" in event["error"]


async def test_a_stream_is_read_in_push_mode_from_the_moment_of_waiting_on(vhost, queue_name, trigger):
    """A stream demands a prefetch and has a default offset, `next`; its messages stay."""
    vhost.declare(queue_name, arguments={"x-queue-type": "stream"})
    vhost.publish(queue_name, "before")
    waiting = asyncio.ensure_future(event_of(trigger(mode="push", filter_data={"filter_headers": {"k": 1}})))
    published = 1
    while not waiting.done():  # nothing tells when a stream has a consumer; what came before it is not delivered
        await asyncio.to_thread(vhost.publish, queue_name, "miss", "miss")
        await asyncio.to_thread(vhost.publish, queue_name, "match", headers={"k": 1})
        published += 3

    assert (await waiting)["message"]["body"] == "match"
    left(vhost, queue_name, published)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # aiormq, when the broker hangs up
def test_a_stream_cannot_be_polled(vhost, queue_name, trigger, caplog):
    vhost.declare(queue_name, arguments={"x-queue-type": "stream"})

    caplog.set_level(logging.CRITICAL, logger="aiormq")  # its record would hold the error
    event = asyncio.run(event_of(trigger(mode="pull")))

    assert event["status"] == "error"
    assert "stream" in event["error"]
    # aiormq 6.9 leaves a future with the broker's reason behind; collected later, it disturbs whoever runs then
    # (CPython 3.11 ends with a SystemError when that happens while it parses a file).
    gc.collect()


class Stored:
    """Stands in for Airflow's database: what it says of the event, look by look."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def __call__(self, _trigger, _key, _token):
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.mark.parametrize(
    ("answers", "count"),
    [
        ([rmq.HandOver.PENDING, rmq.HandOver.PENDING, rmq.HandOver.STORED], 0),
        ([rmq.HandOver.PENDING, rmq.HandOver.UNWANTED], 1),
        ([rmq.HandOver.UNKNOWN], 0),
    ],
)
async def test_a_message_is_acknowledged_only_when_its_event_is_stored(
    vhost, queue_name, trigger, monkeypatch, answers, count
):
    vhost.declare(queue_name)
    vhost.publish(queue_name, "x")
    monkeypatch.setattr(rmq, "hand_over_of", Stored(*answers))

    events = [event.payload["status"] async for event in trigger(mode="push").run()]

    assert events == ["success"]
    left(vhost, queue_name, count)


@pytest.mark.parametrize(("answer", "count"), [(rmq.HandOver.PENDING, 1), (rmq.HandOver.STORED, 0)])
async def test_a_trigger_cancelled_after_its_event_looks_once_more(
    vhost, queue_name, trigger, monkeypatch, answer, count
):
    vhost.declare(queue_name)
    vhost.publish(queue_name, "x")
    fired, looks = asyncio.Event(), []
    monkeypatch.setattr(rmq, "hand_over_of", lambda *_: looks.append(1) or rmq.HandOver.PENDING)

    async def as_the_triggerer_does():
        async for _ in trigger(mode="push").run():
            fired.set()

    running = asyncio.ensure_future(as_the_triggerer_does())
    await asyncio.wait_for(fired.wait(), 10)
    await become(lambda: looks, "the first look")
    monkeypatch.setattr(rmq, "hand_over_of", Stored(answer))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    left(vhost, queue_name, count)
