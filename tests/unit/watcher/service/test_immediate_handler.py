"""One message in immediate mode: the table of `handlers`, row by row."""

import asyncio
import logging
from datetime import datetime, timezone

import pytest
from factories import message

from airflow_provider_rmq.errors import DagRunRefused
from airflow_provider_rmq.messages.filters import MessageFilter
from airflow_provider_rmq.messages.judge import MessageJudge
from airflow_provider_rmq.messages.misses import FilterMissState
from airflow_provider_rmq.messages.settlement import Settlement
from airflow_provider_rmq.watcher.service.dag_runs import StartOutcome
from airflow_provider_rmq.watcher.service.handlers.immediate import ImmediateHandler
from airflow_provider_rmq.watcher.states import DagNotReady, Delivered, StartFailed
from airflow_provider_rmq.watcher.subscription import Subscription, SubscriptionKey

pytestmark = pytest.mark.looptime

SUBSCRIPTION = Subscription(id=42, key=SubscriptionKey("orders_dag", "orders", "rmq_default"))


class Starter:
    """Answers each start with the next of its outcomes; the last one repeats."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.started = []

    async def start(self, dag_id, run_id, conf):
        self.started.append((dag_id, run_id, conf))
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def judge(filter_headers=None, ack_unmatched=False):
    return MessageJudge(
        message_filter=MessageFilter(filter_headers),
        misses=FilterMissState("orders", logging.getLogger("test"), ack_unmatched),
    )


def handler(*outcomes, judged=None):
    starter = Starter(*outcomes)
    return ImmediateHandler(
        SUBSCRIPTION, starter, judged or judge(), lambda: datetime(2026, 3, 1, tzinfo=timezone.utc)
    ), starter


async def test_a_miss_starts_nothing_and_is_held_before_it_returns():
    judged = judge({"kind": "order"})
    handle, starter = handler(StartOutcome.CREATED, judged=judged)

    disposition = await handle(message(headers={"kind": "other"}))

    assert starter.started == []
    assert (disposition.settlement, disposition.hold, disposition.event) == (Settlement.REQUEUE, 0.1, None)
    assert judged.misses.streak == 0
    disposition.settled()
    assert judged.misses.streak == 1


async def test_a_miss_of_a_subscription_that_acknowledges_misses_is_dropped_at_once():
    handle, _ = handler(StartOutcome.CREATED, judged=judge({"kind": "order"}, ack_unmatched=True))

    disposition = await handle(message(headers={"kind": "other"}))

    assert (disposition.settlement, disposition.hold) == (Settlement.ACK, 0)


@pytest.mark.parametrize("ack_unmatched", [False, True])
async def test_a_body_that_cannot_be_read_returns_whatever_the_policy(ack_unmatched):
    handle, starter = handler(StartOutcome.CREATED, judged=judge({"body.a": 1}, ack_unmatched))

    disposition = await handle(message("no json"))

    assert starter.started == []
    assert (disposition.settlement, disposition.hold) == (Settlement.REQUEUE, 0.1)


async def test_a_match_is_counted_when_it_is_settled():
    judged = judge({"kind": "order"})
    judged.misses.on_miss()
    handle, starter = handler(StartOutcome.CREATED, judged=judged)

    disposition = await handle(message(headers={"kind": "order"}))
    disposition.settled()

    assert len(starter.started) == 1
    assert judged.misses.streak == 0


async def test_the_run_gets_the_id_and_the_conf_of_its_message():
    handle, starter = handler(StartOutcome.CREATED)

    await handle(message('{"a": 1}', headers={"kind": "order"}, message_id="m1"))

    assert starter.started == [
        (
            "orders_dag",
            "rmq__orders__m1",
            {
                "source": "immediate",
                "body": '{"a": 1}',
                "headers": {"kind": "order"},
                "routing_key": "orders",
                "queue": "orders",
                "subscription_id": 42,
            },
        )
    ]


@pytest.mark.parametrize(
    "outcome",
    [
        StartOutcome.CREATED,
        StartOutcome.DUPLICATE,
        StartOutcome.PAUSED,
        StartOutcome.INACTIVE,
        StartOutcome.MISSING,
    ],
)
async def test_what_is_final_is_acknowledged(outcome):
    handle, _ = handler(outcome)

    disposition = await handle(message())

    assert (disposition.settlement, disposition.event, disposition.pause) == (Settlement.ACK, Delivered(), 0)


@pytest.mark.parametrize("outcome", [StartOutcome.PAUSED, StartOutcome.INACTIVE, StartOutcome.MISSING])
async def test_a_message_that_is_dropped_leaves_a_warning_that_names_the_dag(outcome, caplog):
    handle, _ = handler(outcome)

    await handle(message())

    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "orders_dag" in record.message
    assert outcome.value in record.message


async def test_a_failure_sends_the_message_back_with_its_reason():
    handle, _ = handler(OSError("database gone"))

    disposition = await handle(message())

    assert disposition.settlement is Settlement.REQUEUE
    assert disposition.event == StartFailed("OSError: database gone")
    assert disposition.pause == 1


async def test_an_error_without_a_text_is_named_by_its_type():
    handle, _ = handler(asyncio.TimeoutError())

    assert (await handle(message())).event == StartFailed("TimeoutError")


async def test_failures_in_a_row_wait_longer_and_a_success_starts_over():
    handle, _ = handler(*[OSError("x")] * 7, StartOutcome.CREATED, OSError("x"))
    pauses = []
    for _ in range(9):
        pause = (await handle(message())).pause
        pauses.append(pause)
        await asyncio.sleep(pause)

    assert pauses == [1, 2, 4, 8, 16, 32, 60, 0, 1]


async def test_failures_side_by_side_count_as_one():
    handle, _ = handler(OSError("x"))

    pauses = [(await handle(message())).pause for _ in range(20)]

    assert pauses == [1] * 20


async def test_a_dag_that_is_not_serialized_yet_sends_the_message_back_quietly(caplog):
    caplog.set_level("INFO")
    handle, _ = handler(StartOutcome.NOT_SERIALIZED)
    events = []
    for _ in range(20):
        disposition = await handle(message())
        events.append(disposition.event)
        assert disposition.settlement is Settlement.REQUEUE
        await asyncio.sleep(disposition.pause)

    assert all(isinstance(event, DagNotReady) for event in events)
    levels = [record.levelname for record in caplog.records if "cannot be started yet" in record.message]
    assert [number + 1 for number, level in enumerate(levels) if level == "WARNING"] == [10, 20]
    assert len(levels) == 20


REFUSED = DagRunRefused("DAG orders_dag does not take the message as its conf: Invalid input for param order")


async def test_a_message_that_the_dags_params_refuse_waits_longer_each_time_and_leaves_with_the_twentieth(caplog):
    """B27: never acknowledged, never at full speed, not for ever."""
    handle, _ = handler(REFUSED)
    loop = asyncio.get_running_loop()
    waits, settlements = [], []
    for _ in range(20):
        begun = loop.time()
        disposition = await handle(message(message_id="m1"))
        waits.append(loop.time() - begun)
        settlements.append(disposition.settlement)
        assert disposition.event == StartFailed(str(REFUSED))
        assert disposition.pause == 0

    assert waits == [1, 2, 4, 8, 16, 32, *[60] * 13, 0]
    assert settlements == [Settlement.REQUEUE] * 19 + [Settlement.DEAD_LETTER]
    lines = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert "was refused 20 times; the message with id m1 is rejected without requeue" in lines[-1]
    assert "param order" in lines[-1]
    assert len(lines) == 3


async def test_a_refused_message_holds_up_no_other():
    """B27: the pause is the message's own."""
    handle, _ = handler(REFUSED, StartOutcome.CREATED)
    waiting = asyncio.ensure_future(handle(message(message_id="bad")))
    await asyncio.sleep(0)

    disposition = await handle(message(message_id="good"))

    assert disposition.settlement is Settlement.ACK
    assert not waiting.done()
    await waiting


async def test_a_stop_ends_the_wait_of_a_refused_message():
    handle, _ = handler(REFUSED)
    handle.stop.set()

    disposition = await handle(message(message_id="m1"))

    assert disposition.settlement is Settlement.REQUEUE
    assert asyncio.get_running_loop().time() == 0
