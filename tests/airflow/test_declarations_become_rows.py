"""The sync on a real table: what a trusted listing does to the rows."""

from contextlib import closing

import pytest

from airflow_provider_rmq import compat
from airflow_provider_rmq.watcher.models import RMQSubscription, WatcherSession
from airflow_provider_rmq.watcher.rows.subscriptions import enabled_subscriptions
from airflow_provider_rmq.watcher.rows.sync import DeclarationSync, SyncSuperseded
from airflow_provider_rmq.watcher.subscription import Declaration, OnFilterError, SubscriptionKey

KEY = SubscriptionKey("active_dag", "orders", "rmq_default")
DECLARED = {Declaration(key=KEY)}


@pytest.fixture(autouse=True)
def active_dag(make_dag):
    make_dag("active_dag")


@pytest.fixture
def sync():
    return DeclarationSync()


def sync_declarations(session, declared):
    """One cycle of a process that remembers nothing."""
    sync = DeclarationSync()
    return sync.run(session, declared, sync.take_turn())


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


def test_a_row_of_the_ui_is_neither_counted_nor_taken_over_and_the_refusal_is_shown(session, caplog, sync):
    """L15."""
    row_id = store(session, source="ui", filter_data={"filter_headers": {"of": "the UI"}}).id
    declared = {Declaration(key=KEY, cooldown=60, origin="orders.py:7")}

    plans = [sync.run(session, declared, sync.take_turn()) for _ in range(3)]
    sync.run(session, set(), sync.take_turn())

    row = only(session)
    assert (row.id, row.source, row.absent_cycles, row.cooldown) == (row_id, "ui", None, None)
    assert row.filter_data == {"filter_headers": {"of": "the UI"}}
    assert all(
        f"orders.py:7: rmq_trigger of DAG active_dag, queue orders: the key belongs to subscription {row_id}"
        in str(plan.refusals[0])
        for plan in plans
    )
    assert [record.levelname for record in caplog.records if "created in the UI" in record.message] == ["WARNING"]


def test_a_ui_row_that_is_deleted_gives_its_key_to_the_declaration(session, sync):
    store(session, source="ui")
    sync.run(session, DECLARED, sync.take_turn())
    session.query(RMQSubscription).delete()
    session.commit()

    plan = sync.run(session, DECLARED, sync.take_turn())

    assert only(session).source == "dag_file"
    assert plan.refusals == ()


@pytest.fixture
def meanwhile(monkeypatch):
    """Have something happen to the table between reading and writing, as another Scheduler's doing."""

    def arrange(work):
        real = compat.dag_states

        def dag_states(session, dag_ids):
            monkeypatch.setattr(compat, "dag_states", real)
            with closing(WatcherSession()) as other:
                work(other)
                other.commit()
            return real(session, dag_ids)

        monkeypatch.setattr(compat, "dag_states", dag_states)

    return arrange


@pytest.mark.parametrize("misses", [1, 3])
def test_a_scheduler_that_comes_second_neither_counts_nor_deletes(session, meanwhile, misses, caplog):
    row_id = store(session, absent_cycles=misses).id
    caplog.set_level("INFO")
    meanwhile(lambda other: other.query(RMQSubscription).update({"absent_cycles": 2}))

    sync_declarations(session, set())

    assert (only(session).id, only(session).absent_cycles) == (row_id, 2)
    assert not [record for record in caplog.records if "miss" in record.message or "deleted" in record.message]


def test_a_scheduler_that_comes_second_clears_no_newer_count(session, meanwhile):
    store(session, absent_cycles=1)
    meanwhile(lambda other: other.query(RMQSubscription).update({"absent_cycles": 2}))

    sync_declarations(session, DECLARED)

    assert only(session).absent_cycles == 2


def test_a_row_switched_off_meanwhile_is_not_deleted(session, meanwhile):
    row_id = store(session, dag_id="unknown_dag", absent_cycles=2).id
    meanwhile(lambda other: other.query(RMQSubscription).update({"enabled": False}))

    sync_declarations(session, set())

    assert (only(session).id, only(session).absent_cycles) == (row_id, 2)


def test_a_key_that_two_schedulers_insert_is_inserted_once_and_costs_the_second_nothing_else(session, meanwhile):
    other_key = SubscriptionKey("active_dag", "payments", "rmq_default")
    meanwhile(lambda other: store(other, enabled=False))

    sync_declarations(session, {*DECLARED, Declaration(key=other_key)})

    assert [(row.queue_name, row.enabled) for row in rows(session)] == [("orders", False), ("payments", True)]


def test_a_sync_that_a_newer_listing_has_overtaken_commits_nothing(session, sync, caplog, monkeypatch):
    counted = []
    monkeypatch.setattr("airflow_provider_rmq.watcher.rows.sync.incr", counted.append)
    old = sync.take_turn()
    sync.take_turn()

    with pytest.raises(SyncSuperseded):
        sync.run(session, DECLARED, old)

    assert rows(session) == []
    assert counted == ["rmq_watcher.sync_superseded"]
    assert "commits nothing" in caplog.text


@pytest.mark.parametrize(("enabled", "word"), [(True, "on"), (False, "off")])
def test_a_key_that_returns_after_its_deletion_is_announced_once_with_the_state_it_had(
    session, sync, caplog, enabled, word
):
    store(session, enabled=enabled, absent_cycles=3)
    sync.run(session, set(), sync.take_turn())
    assert rows(session) == []

    sync.run(session, DECLARED, sync.take_turn())
    sync.run(session, DECLARED, sync.take_turn())

    (record,) = [record for record in caplog.records if "is declared again" in record.message]
    assert record.levelname == "WARNING"
    assert f"{KEY} is declared again; its row had been deleted when it was switched {word}" in record.message
    assert only(session).enabled is True


def test_a_returning_key_is_news_to_nobody_but_who_deleted_it(session, sync, caplog):
    store(session, absent_cycles=3)
    sync.run(session, set(), sync.take_turn())

    sync_declarations(session, DECLARED)
    sync.run(session, DECLARED, sync.take_turn())
    session.query(RMQSubscription).delete()
    session.commit()
    sync.run(session, DECLARED, sync.take_turn())

    assert not [record for record in caplog.records if "is declared again" in record.message]


def test_a_row_of_an_unknown_source_is_as_good_as_the_uis(session, sync):
    store(session, source="terraform")

    sync.run(session, set(), sync.take_turn())

    assert (only(session).source, only(session).absent_cycles) == ("terraform", None)


def test_a_tuple_in_a_filter_does_not_change_its_row_in_every_cycle(session, sync):
    declared = {Declaration(key=KEY, filter_data={"filter_headers": {"tags": ("a", "b")}})}
    sync.run(session, declared, sync.take_turn())

    assert sync.run(session, declared, sync.take_turn()).changes == ()


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


def test_what_becomes_of_unreadable_messages_is_stored_and_read_back(session, sync):
    """L11: null in rows of earlier releases means that they go back."""
    declared = Declaration(key=KEY, on_filter_error=OnFilterError.DEAD_LETTER)
    sync.run(session, {declared}, sync.take_turn())
    assert only(session).on_filter_error == "dead_letter"
    assert enabled_subscriptions(session).served[0].on_filter_error is OnFilterError.DEAD_LETTER
    assert sync.run(session, {declared}, sync.take_turn()).changes == ()

    sync.run(session, DECLARED, sync.take_turn())
    assert only(session).on_filter_error is None
    assert enabled_subscriptions(session).served[0].on_filter_error is OnFilterError.REQUEUE

    session.query(RMQSubscription).update({"on_filter_error": "shred"})
    session.commit()
    assert "on_filter_error must be" in next(iter(enabled_subscriptions(session).refused.values()))
