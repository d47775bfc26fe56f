"""The sync on a real table: what a trusted listing does to the rows."""

import pytest

from airflow_provider_rmq.watcher.models import RMQSubscription
from airflow_provider_rmq.watcher.rows.subscriptions import enabled_subscriptions
from airflow_provider_rmq.watcher.rows.sync import StoredRow, SyncPlan, apply_plan, sync_declarations
from airflow_provider_rmq.watcher.subscription import Declaration, Source, SubscriptionKey

KEY = SubscriptionKey("active_dag", "orders", "rmq_default")
DECLARED = {Declaration(key=KEY)}


@pytest.fixture(autouse=True)
def active_dag(make_dag):
    make_dag("active_dag")


def rows(session):
    session.expire_all()
    return session.query(RMQSubscription).order_by(RMQSubscription.id).all()


def only(session):
    (row,) = rows(session)
    return row


def store(session, **values):
    fields = {"dag_id": KEY.dag_id, "queue_name": KEY.queue_name, "source": "dag_file", **values}
    session.add(RMQSubscription(**fields))
    session.commit()
    return only(session)


def test_a_declaration_becomes_an_enabled_row_with_every_column_filled(session):
    sync_declarations(session, DECLARED)

    row = only(session)
    assert (row.dag_id, row.queue_name, row.conn_id) == KEY
    assert (row.source, row.enabled, row.consumer_status, row.trigger_mode) == ("dag_file", True, "connecting", "any")
    assert row.filter_data == {}
    assert row.created_at is not None
    assert row.updated_at is not None


def test_a_second_sync_changes_nothing(session):
    sync_declarations(session, DECLARED)
    before = (only(session).id, only(session).updated_at)

    sync_declarations(session, DECLARED)

    assert (only(session).id, only(session).updated_at) == before


def test_three_misses_are_survived_and_the_fourth_deletes(session):
    row_id = store(session).id

    for misses in (1, 2, 3):
        sync_declarations(session, set())
        assert (only(session).id, only(session).absent_cycles) == (row_id, misses)
    sync_declarations(session, set())

    assert rows(session) == []


def test_an_enabled_row_of_an_inactive_dag_goes_with_the_third_miss(session, make_dag):
    make_dag("inactive_dag", active=False)
    store(session, dag_id="inactive_dag")

    for _ in range(2):
        sync_declarations(session, set())
    assert only(session).absent_cycles == 2
    sync_declarations(session, set())

    assert rows(session) == []


def test_a_disabled_row_of_an_inactive_dag_gets_the_whole_grace(session):
    store(session, dag_id="unknown_dag", enabled=False)

    for _ in range(3):
        sync_declarations(session, set())
    assert only(session).absent_cycles == 3
    sync_declarations(session, set())

    assert rows(session) == []


def test_a_key_that_comes_back_keeps_its_row_and_its_switch(session):
    row_id = store(session, enabled=False, absent_cycles=2).id

    sync_declarations(session, DECLARED)

    row = only(session)
    assert (row.id, row.enabled, row.absent_cycles) == (row_id, False, 0)


def test_a_row_of_the_ui_is_neither_counted_nor_taken_over(session, caplog):
    row_id = store(session, source="ui").id

    sync_declarations(session, DECLARED)
    sync_declarations(session, set())

    row = only(session)
    assert (row.id, row.source, row.absent_cycles) == (row_id, "ui", None)
    assert "the row stays the UI's" in caplog.text


def test_a_scheduler_that_comes_second_neither_counts_nor_deletes(session):
    """Each write is matched on the counter the row was read with; another Scheduler has moved it on meanwhile."""
    row_id = store(session, absent_cycles=3).id
    read_earlier = StoredRow(id=row_id, key=KEY, source=Source.DAG_FILE, enabled=True, misses=2)

    apply_plan(session, SyncPlan(misses=(read_earlier,)))
    apply_plan(session, SyncPlan(deletions=(read_earlier,)))
    session.commit()

    assert only(session).absent_cycles == 3


def test_a_row_switched_off_meanwhile_is_not_deleted(session):
    row_id = store(session, enabled=False, absent_cycles=2).id
    read_earlier = StoredRow(id=row_id, key=KEY, source=Source.DAG_FILE, enabled=True, misses=2)

    apply_plan(session, SyncPlan(deletions=(read_earlier,)))
    session.commit()

    assert only(session).id == row_id


def test_only_enabled_rows_are_served_and_what_is_not_served_says_why(session):
    served = store(session).id
    store_more = [
        RMQSubscription(dag_id="off", queue_name="q", source="ui", enabled=False),
        RMQSubscription(dag_id="cooled", queue_name="q", source="ui", cooldown=60),
        RMQSubscription(dag_id="own_queue", queue_name="rmq_watcher.sub.own_queue", source="ui"),
        RMQSubscription(dag_id="thief", queue_name="rmq_watcher.fire", source="ui"),
        RMQSubscription(dag_id="backwards", queue_name="q", source="ui", cooldown=-1),
        RMQSubscription(dag_id="bad_filter", queue_name="q", source="ui", filter_data={"filter_headers": [1]}),
        RMQSubscription(dag_id="empty_filter", queue_name="q", source="ui", filter_data={"filter_headers": None}),
    ]
    session.add_all(store_more)
    session.commit()

    found = enabled_subscriptions(session)

    assert [item.key.dag_id for item in found.served] == ["active_dag", "cooled", "own_queue", "empty_filter"]
    assert [item.cooldown for item in found.served] == [0, 60, 0, 0]
    assert found.served[0].id == served
    reasons = " ".join(found.refused.values())
    assert len(found.refused) == 3
    assert "queue rmq_watcher.fire is the watcher's own" in reasons
    assert "the cooldown of -1 s is negative; nothing is consumed" in reasons
    assert "filter_headers must be a dict" in reasons


def test_a_changed_declaration_changes_its_row_and_keeps_its_id_and_switch(session):
    row_id = store(session, enabled=False, filter_data={"filter_headers": {"old": 1}}).id
    changed = Declaration(key=KEY, filter_data={"filter_headers": {"new": 1}}, cooldown=60, ack_unmatched=True)

    sync_declarations(session, {changed})

    row = only(session)
    assert (row.id, row.enabled) == (row_id, False)
    assert row.filter_data == {"filter_headers": {"new": 1}}
    assert (row.cooldown, row.group_key, row.ack_unmatched) == (60, "active_dag", True)

    sync_declarations(session, DECLARED)

    row = only(session)
    assert (row.filter_data, row.cooldown, row.group_key, row.ack_unmatched) == ({}, None, None, False)
