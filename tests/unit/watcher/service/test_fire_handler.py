"""One marker in the fire queue: the table of `handlers.fire`, row by row."""

import asyncio

import pytest
from factories import message

from airflow_provider_rmq.messages.settlement import Settlement
from airflow_provider_rmq.watcher.service.dag_runs import StartOutcome
from airflow_provider_rmq.watcher.service.handlers.fire import FireHandler
from airflow_provider_rmq.watcher.service.row_troubles import RowTroubles
from airflow_provider_rmq.watcher.states import DagNotReady, Delivered, Row, StartFailed, SubscriptionStatus
from airflow_provider_rmq.watcher.subscription import FireConsumer, Subscription, SubscriptionKey

pytestmark = pytest.mark.looptime

LISTENING = Row(SubscriptionStatus.LISTENING, None)


class Starter:
    """Answers each start with the next of its outcomes; the last one repeats."""

    def __init__(self, *outcomes):
        self.outcomes, self.started = list(outcomes), []

    async def start(self, dag_id, run_id, conf):
        self.started.append((dag_id, run_id, conf))
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class Rows(dict):
    def write(self, subscription_id, row):
        self[subscription_id] = row


@pytest.fixture
def rows():
    return Rows()


@pytest.fixture
def troubles(rows):
    found = RowTroubles(rows.write)
    for number, dag_id in enumerate(["d", "d", "other"], start=1):
        found.report(Subscription(id=number, key=SubscriptionKey(dag_id, f"q{number}", "c"), cooldown=1), LISTENING)
    return found


def handler(troubles, *outcomes):
    starter = Starter(*outcomes)
    return FireHandler(FireConsumer("c", "rmq_watcher.fire"), starter, troubles, asyncio.Event()), starter


def marker(dag_id="d", message_id="m1"):
    return message(routing_key=dag_id, message_id=message_id, queue="rmq_watcher.fire", exchange="rmq_watcher.fire")


async def test_a_marker_starts_its_dag_once_for_its_id(troubles):
    handle, starter = handler(troubles, StartOutcome.CREATED)

    disposition = await handle(marker())

    assert (disposition.settlement, disposition.event, disposition.pause) == (Settlement.ACK, Delivered(), 0)
    ((dag_id, run_id, conf),) = starter.started
    assert (dag_id, run_id) == ("d", "rmq_cooldown__d__m1")
    assert conf == {
        "source": "cooldown",
        "dag_id": "d",
        "body": "",
        "headers": {},
        "routing_key": "d",
        "queue": "rmq_watcher.fire",
        "subscription_id": None,
    }


@pytest.mark.parametrize(
    "outcome", [StartOutcome.DUPLICATE, StartOutcome.PAUSED, StartOutcome.INACTIVE, StartOutcome.MISSING]
)
async def test_what_is_final_is_acknowledged(troubles, outcome):
    handle, _ = handler(troubles, outcome)

    assert (await handle(marker())).settlement is Settlement.ACK


@pytest.mark.parametrize("outcome", [StartOutcome.PAUSED, StartOutcome.INACTIVE, StartOutcome.MISSING])
async def test_a_window_whose_dag_cannot_run_ends_with_a_warning(troubles, outcome, caplog):
    handle, _ = handler(troubles, outcome)

    await handle(marker())

    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "DAG d is not started" in record.message


@pytest.mark.parametrize(
    ("dag_id", "message_id", "word"),
    [("", "m1", "a routing key"), ("d", None, "a message id"), ("d", "", "a message id"), ("", None, "a routing key")],
)
async def test_a_message_that_is_no_marker_is_acknowledged_with_a_warning(troubles, caplog, dag_id, message_id, word):
    handle, starter = handler(troubles, StartOutcome.CREATED)

    disposition = await handle(marker(dag_id, message_id))

    assert (disposition.settlement, starter.started) == (Settlement.ACK, [])
    assert f"a message without {word} is dropped" in caplog.text


async def test_a_failure_sends_the_marker_back_with_its_reason_and_a_growing_pause(troubles):
    handle, _ = handler(troubles, OSError("database gone"))
    pauses = []
    for _ in range(3):
        disposition = await handle(marker())
        assert disposition.settlement is Settlement.REQUEUE
        assert disposition.event == StartFailed("OSError: database gone")
        pauses.append(disposition.pause)
        await asyncio.sleep(disposition.pause)

    assert pauses == [1, 2, 4]


async def test_a_dag_that_is_never_serialized_makes_its_rows_read_error_until_it_goes_through(troubles, rows):
    """L12."""
    handle, _ = handler(troubles, *[StartOutcome.NOT_SERIALIZED] * 25, StartOutcome.CREATED)
    for _ in range(24):
        disposition = await handle(marker())
        assert disposition.settlement is Settlement.REQUEUE
        assert isinstance(disposition.event, DagNotReady)
    assert rows == {1: LISTENING, 2: LISTENING, 3: LISTENING}

    await handle(marker())
    assert rows[1].status is rows[2].status is SubscriptionStatus.ERROR
    assert "a cooldown window has ended, but DAG d cannot be started yet" in rows[1].error
    assert rows[3] == LISTENING

    await handle(marker())
    assert rows == {1: LISTENING, 2: LISTENING, 3: LISTENING}


async def test_a_marker_of_a_dag_that_is_not_serialized_waits_alone(troubles, looptime):
    handle, _ = handler(troubles, StartOutcome.NOT_SERIALIZED, StartOutcome.CREATED)
    waiting = asyncio.ensure_future(handle(marker("late")))
    await asyncio.sleep(0)

    disposition = await handle(marker("ready"))

    assert disposition.settlement is Settlement.ACK
    assert looptime == 0
    assert (await waiting).pause == 0
    assert looptime == 1


async def test_a_stop_ends_the_wait(troubles):
    handle, _ = handler(troubles, StartOutcome.NOT_SERIALIZED)
    for _ in range(10):
        await handle(marker())
    waiting = asyncio.ensure_future(handle(marker()))
    await asyncio.sleep(1)
    assert not waiting.done()
    stopped_at = asyncio.get_running_loop().time()

    handle.stop.set()

    assert (await waiting).settlement is Settlement.REQUEUE
    assert asyncio.get_running_loop().time() == stopped_at


async def test_the_log_names_a_dag_that_is_not_serialized_and_warns_each_tenth_time(troubles, caplog):
    caplog.set_level("INFO")
    handle, _ = handler(troubles, StartOutcome.NOT_SERIALIZED)
    for _ in range(20):
        await handle(marker())

    levels = [record.levelname for record in caplog.records if "cannot be started yet" in record.message]
    assert [number + 1 for number, level in enumerate(levels) if level == "WARNING"] == [10, 20]
