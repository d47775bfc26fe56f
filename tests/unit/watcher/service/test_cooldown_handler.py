"""One message of a subscription with cooldown: the table of `handlers.cooldown`, row by row."""

import asyncio
import json
import logging
from dataclasses import replace

import pytest
from factories import message

from airflow_provider_rmq.broker.publishing import MarkerOutcome, MarkerReport
from airflow_provider_rmq.messages.filters import MessageFilter
from airflow_provider_rmq.messages.judge import MessageJudge
from airflow_provider_rmq.messages.misses import FilterMissState
from airflow_provider_rmq.messages.settlement import Settlement
from airflow_provider_rmq.watcher.service.cooldown_windows import CooldownWindow
from airflow_provider_rmq.watcher.service.handlers.cooldown import CooldownHandler
from airflow_provider_rmq.watcher.states import Delivered, StartFailed
from airflow_provider_rmq.watcher.subscription import Subscription, SubscriptionKey

pytestmark = pytest.mark.looptime

SUBSCRIPTION = Subscription(id=7, key=SubscriptionKey("my_dag", "orders", "c"), cooldown=300)


class Publisher:
    def __init__(self, outcome, reason=""):
        self.report = MarkerReport(outcome, reason)
        self.markers = []

    async def open_window(self, conn_id, marker):
        self.markers.append(marker)
        return self.report


def handler(outcome=MarkerOutcome.OPENED, reason="", filter_headers=None, ack_unmatched=False, **changes):
    publisher = Publisher(outcome, reason)
    judge = MessageJudge(
        message_filter=MessageFilter(filter_headers),
        misses=FilterMissState("orders", logging.getLogger("test"), ack_unmatched),
    )
    subscription = replace(SUBSCRIPTION, **changes)
    return (
        CooldownHandler(subscription, CooldownWindow(publisher, lambda: "c"), judge, asyncio.Event()),
        publisher,
    )


@pytest.mark.parametrize("outcome", [MarkerOutcome.OPENED, MarkerOutcome.OPEN_ALREADY])
async def test_a_message_in_a_window_is_acknowledged(outcome):
    handle, _ = handler(outcome)

    disposition = await handle(message())

    assert (disposition.settlement, disposition.event, disposition.pause) == (Settlement.ACK, Delivered(), 0)


async def test_the_message_that_opens_a_window_says_so_and_the_others_are_silent(caplog):
    caplog.set_level("INFO")
    for outcome in (MarkerOutcome.OPENED, MarkerOutcome.OPEN_ALREADY):
        handle, _ = handler(outcome)
        await handle(message())

    assert caplog.text.count("a cooldown window of 300 s opens") == 1


@pytest.mark.parametrize("outcome", [MarkerOutcome.RETURNED, MarkerOutcome.TIMED_OUT, MarkerOutcome.FAILED])
async def test_a_message_without_a_window_goes_back_with_the_reason_after_a_pause(outcome):
    """B19: never acknowledged without a marker at the broker."""
    handle, _ = handler(outcome, "queue x is gone")

    disposition = await handle(message())

    assert disposition.settlement is Settlement.REQUEUE
    assert disposition.event == StartFailed(f"the cooldown window cannot be opened, {outcome.value}: queue x is gone")
    assert disposition.pause == 1


async def test_a_reason_without_text_leaves_no_loose_end():
    """L34."""
    handle, _ = handler(MarkerOutcome.TIMED_OUT, "")

    assert (await handle(message())).event == StartFailed(
        "the cooldown window cannot be opened, the broker gave no answer in time"
    )


async def test_a_stop_sends_the_message_back_without_a_word():
    handle, publisher = handler()
    handle.stop.set()

    disposition = await handle(message())

    assert (disposition.settlement, disposition.event, disposition.pause) == (Settlement.REQUEUE, None, 0)
    assert publisher.markers == []


@pytest.mark.parametrize(("ack_unmatched", "settlement"), [(False, Settlement.REQUEUE), (True, Settlement.ACK)])
async def test_a_message_that_the_filter_rejects_opens_no_window(ack_unmatched, settlement):
    handle, publisher = handler(filter_headers={"kind": "x"}, ack_unmatched=ack_unmatched)

    assert (await handle(message(headers={"kind": "y"}))).settlement is settlement
    assert publisher.markers == []


async def test_a_body_that_cannot_be_read_goes_back_whatever_the_policy():
    handle, publisher = handler(filter_headers={"body.a": 1}, ack_unmatched=True)

    assert (await handle(message("no json"))).settlement is Settlement.REQUEUE
    assert publisher.markers == []


async def test_a_match_is_counted_when_it_is_settled():
    handle, _ = handler(filter_headers={"kind": "x"})
    handle.judge.misses.on_miss()

    disposition = await handle(message(headers={"kind": "x"}))
    assert handle.judge.misses.streak == 1
    disposition.settled()

    assert handle.judge.misses.streak == 0


async def test_the_marker_is_the_dags_and_carries_nothing_unless_asked_to():
    handle, publisher = handler()
    await handle(message("body"))
    keeping, keeper = handler(keep_payload=True)
    await keeping(message("body", headers={"a": 1}))

    assert (publisher.markers[0].dag_id, publisher.markers[0].cooldown, publisher.markers[0].payload) == (
        "my_dag",
        300,
        None,
    )
    assert json.loads(keeper.markers[0].payload.body) == {"body": "body", "headers": {"a": 1}}
