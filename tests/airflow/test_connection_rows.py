"""The Connections block's rows: written in every cycle, true also after somebody else has written, never deleted."""

from datetime import datetime

import pytest

from airflow_provider_rmq.watcher.models import RMQConnStatus, RMQSubscription
from airflow_provider_rmq.watcher.rows.statuses import (
    MAX_ERROR_LENGTH,
    write_connection_statuses,
    write_subscription_statuses,
)
from airflow_provider_rmq.watcher.rows.subscriptions import enabled_subscriptions
from airflow_provider_rmq.watcher.states import ConnectionReport, ConnectionStatus, Row, SubscriptionStatus

FIRST, SECOND = datetime(2026, 1, 1, 12, 0), datetime(2026, 1, 1, 12, 1)
CONNECTED = ConnectionReport(status=ConnectionStatus.CONNECTED, consumers=3, broker_consumers=4)
REFUSED = ConnectionReport(status=ConnectionStatus.ERROR, error="port refused", consumers=3)


def row(session, conn_id="c"):
    session.expire_all()
    found = session.get(RMQConnStatus, conn_id)
    return (
        found.status,
        found.last_error,
        found.consumer_count,
        found.broker_consumer_count,
        found.last_reconcile_at,
    )


def test_a_connection_without_a_verdict_yet_is_unknown_and_stamped(session):
    write_connection_statuses(session, {"c": ConnectionReport(consumers=2)}, FIRST)

    assert row(session) == ("unknown", None, 2, None, FIRST)


def test_a_verdict_is_stored_with_its_reason_and_a_good_one_takes_it_away(session):
    write_connection_statuses(session, {"c": REFUSED}, FIRST)
    assert row(session) == ("error", "port refused", 3, None, FIRST)

    write_connection_statuses(session, {"c": CONNECTED}, SECOND)
    assert row(session) == ("connected", None, 3, 4, SECOND)


def test_no_data_keeps_status_and_reason_and_moves_counts_and_stamp(session):
    write_connection_statuses(session, {"c": REFUSED}, FIRST)

    write_connection_statuses(session, {"c": ConnectionReport(consumers=1)}, SECOND)

    assert row(session) == ("error", "port refused", 1, None, SECOND)


def test_a_good_verdict_repairs_what_another_replica_wrote_within_one_cycle(session):
    """L14."""
    write_connection_statuses(session, {"c": CONNECTED}, FIRST)
    other = session.get(RMQConnStatus, "c")
    other.status, other.last_error = "error", "the other replica's trouble"
    session.commit()

    write_connection_statuses(session, {"c": CONNECTED}, SECOND)

    assert row(session)[:2] == ("connected", None)


def test_a_subscription_row_is_repaired_too(session):
    """L14."""
    session.add(RMQSubscription(dag_id="d", queue_name="q", conn_id="c", source="ui", consumer_status="error"))
    session.commit()
    (number,) = session.query(RMQSubscription.id).one()

    write_subscription_statuses(session, {number: Row(SubscriptionStatus.LISTENING, None)})

    session.expire_all()
    assert session.get(RMQSubscription, number).consumer_status == "listening"


def test_a_connection_nobody_names_any_more_keeps_its_row_and_its_age(session):
    write_connection_statuses(session, {"c": CONNECTED, "old": CONNECTED}, FIRST)

    write_connection_statuses(session, {"c": CONNECTED}, SECOND)

    assert row(session, "old") == ("connected", None, 3, 4, FIRST)


def test_a_long_reason_is_cut(session):
    report = ConnectionReport(status=ConnectionStatus.DEGRADED, error="x" * 9000)

    write_connection_statuses(session, {"c": report}, FIRST)

    assert row(session)[:2] == ("degraded", "x" * MAX_ERROR_LENGTH)


@pytest.mark.parametrize("cooldown", [0, -1])
def test_every_conn_id_of_the_list_is_named_also_that_of_a_row_that_cannot_be_served(session, cooldown):
    session.add(RMQSubscription(dag_id="d", queue_name="q", conn_id="c", source="ui", cooldown=cooldown))
    session.add(RMQSubscription(dag_id="e", queue_name="q", conn_id="off", source="ui", enabled=False))
    session.commit()

    assert enabled_subscriptions(session).conn_ids == {"c"}
