"""A row tells what its consumer cannot know."""

import pytest

from airflow_provider_rmq.watcher.service.row_troubles import RowTroubles
from airflow_provider_rmq.watcher.states import Row, SubscriptionStatus
from airflow_provider_rmq.watcher.subscription import Subscription, SubscriptionKey

LISTENING = Row(SubscriptionStatus.LISTENING, None)
OWN_ERROR = Row(SubscriptionStatus.ERROR, "its own")


def subscription(number, dag_id="d"):
    return Subscription(id=number, key=SubscriptionKey(dag_id, f"q{number}", "c"))


class Table:
    def __init__(self):
        self.rows, self.writes = {}, 0

    def write(self, subscription_id, row):
        self.rows[subscription_id] = row
        self.writes += 1


@pytest.fixture
def table():
    return Table()


@pytest.fixture
def troubles(table):
    return RowTroubles(table.write)


def test_a_listening_row_says_what_is_wrong_with_its_dag_and_heals(troubles, table):
    troubles.report(subscription(1), LISTENING)
    troubles.report(subscription(2, "other"), LISTENING)

    troubles.set("fire", "d", "it is stuck")
    assert table.rows == {1: Row(SubscriptionStatus.ERROR, "it is stuck"), 2: LISTENING}
    troubles.clear("fire", "d")
    assert table.rows == {1: LISTENING, 2: LISTENING}


def test_a_trouble_that_was_there_first_shows_on_a_row_that_comes_later(troubles, table):
    troubles.set("fire", "d", "it is stuck")

    troubles.report(subscription(1), LISTENING)

    assert table.rows[1].error == "it is stuck"


@pytest.mark.parametrize(
    "row",
    [
        OWN_ERROR,
        Row(SubscriptionStatus.CONNECTING, None),
        Row(SubscriptionStatus.CONNECTING, "waiting"),
        Row(SubscriptionStatus.DISCONNECTED, None),
    ],
)
def test_a_consumer_that_does_not_listen_speaks_for_itself(troubles, table, row):
    troubles.set("fire", "d", "it is stuck")

    troubles.report(subscription(1), row)

    assert table.rows[1] == row


def test_troubles_of_several_kinds_stand_side_by_side(troubles, table):
    troubles.report(subscription(1), LISTENING)
    troubles.set("provisioning", "d", "no exchange")
    troubles.set("fire", "d", "it is stuck")

    assert table.rows[1].error == "it is stuck; no exchange"
    troubles.clear("fire", "d")
    assert table.rows[1].error == "no exchange"


def test_the_troubles_of_a_kind_are_replaced_and_other_kinds_stay(troubles, table):
    for number, dag_id in enumerate("abc"):
        troubles.report(subscription(number, dag_id), LISTENING)
    troubles.set("fire", "c", "it is stuck")
    troubles.replace_all("provisioning", {"a": "one", "b": "two"})

    troubles.replace_all("provisioning", {"b": "three"})

    assert [table.rows[number].error for number in range(3)] == [None, "three", "it is stuck"]


def test_what_is_said_again_is_not_written_again(troubles, table):
    troubles.report(subscription(1), LISTENING)
    troubles.set("fire", "d", "it is stuck")
    writes = table.writes

    troubles.set("fire", "d", "it is stuck")
    troubles.clear("other", "d")

    assert table.writes == writes


def test_a_subscription_that_is_gone_is_not_written_any_more(troubles, table):
    troubles.report(subscription(1), LISTENING)
    troubles.forget(1)

    troubles.set("fire", "d", "it is stuck")

    assert table.rows == {1: LISTENING}
