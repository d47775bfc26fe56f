"""From rows to what a person sees: groups, badges, search and pages."""

from datetime import datetime, timedelta

import pytest

from airflow_provider_rmq.compat import DagState
from airflow_provider_rmq.watcher.rows.page_rows import ConnectionRow, SubscriptionRow
from airflow_provider_rmq.watcher.subscription import Source, SubscriptionKey
from airflow_provider_rmq.watcher.web.connections_block import lay_out_connections
from airflow_provider_rmq.watcher.web.form_page import form_of_group, form_of_row
from airflow_provider_rmq.watcher.web.subscriptions_page import Allowed, SubscriptionsPage, lay_out, select_groups

NOW = datetime(2026, 1, 2, 3, 4, 5)


def row(number, queue="orders", dag_id=None, conn_id="rmq_default", **changes):
    fields = {"source": Source.DAG_FILE, "enabled": True, "status": "listening"} | changes
    return SubscriptionRow(id=number, key=SubscriptionKey(dag_id or f"dag_{number}", queue, conn_id), **fields)


def lines(*rows, states=None, search="", page=1):
    shown, _ = select_groups(rows, search, page)
    return [line for group in lay_out(shown, rows, states or {}) for line in group.lines]


def groups(*rows):
    shown, _ = select_groups(rows, "", 1)
    return lay_out(shown, rows, {})


def badges(line):
    return [badge.text for badge in line.badges]


# --- badges


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (DagState.MISSING, ["dag not found"]),
        (DagState.INACTIVE, ["dag not found"]),
        (DagState.PAUSED, ["dag paused"]),
        (DagState.NOT_SERIALIZED, []),
        (DagState.READY, []),
        (None, []),
    ],
)
def test_a_dag_that_no_message_can_start_is_marked(state, expected):
    states = {} if state is None else {"dag_1": state}

    assert badges(lines(row(1), states=states)[0]) == expected


def test_both_of_two_enabled_subscriptions_on_a_queue_are_marked():
    first, second, other = lines(row(1), row(2), row(3, queue="payments"))

    assert badges(first) == badges(second) == ["shared queue"]
    assert badges(other) == []
    assert "dag_2" in first.badges[0].tooltip


def test_the_mark_is_harder_where_one_of_them_acknowledges():
    first, second = lines(row(1), row(2, ack_unmatched=True))

    assert badges(first) == badges(second) == ["shared queue — messages deleted"]


def test_a_disabled_subscription_shares_nothing():
    assert [badges(line) for line in lines(row(1), row(2, enabled=False))] == [[], []]


def test_a_queue_of_another_connection_is_another_queue():
    assert [badges(line) for line in lines(row(1), row(2, conn_id="other"))] == [[], []]


def test_a_queue_is_shared_with_a_subscription_that_the_search_hides():
    (line,) = lines(row(1), row(2), search="dag_1")

    assert badges(line) == ["shared queue"]


def test_a_group_names_its_shared_queues():
    members = [row(n, queue=q, dag_id="d", group_key="d", cooldown=5) for n, q in ((1, "q1"), (2, "q2"), (3, "q3"))]
    neighbours = [row(4, queue="q1"), row(5, queue="q2", ack_unmatched=True)]

    (group,) = [group for group in groups(*members, *neighbours) if group.key == "d"]

    assert group.shared.text == "shared queue: q1, q2 — messages deleted"


def test_a_key_missing_from_the_scan_is_marked():
    assert badges(lines(row(1, misses=2))[0]) == ["not in its DAG file"]


# --- status


def test_a_disabled_subscription_says_disconnected_whatever_its_consumer_said_last():
    (line,) = lines(row(1, enabled=False, status="error", error="old"))

    assert (line.status, line.error) == ("disconnected", None)


def test_a_group_counts_who_listens():
    (group,) = groups(
        row(1, queue="a", dag_id="d", group_key="d"),
        row(2, queue="b", dag_id="d", group_key="d", status="error", error="x"),
        row(3, queue="c", dag_id="d", group_key="d", enabled=False),
    )

    assert (group.listening, len(group.lines), group.all_enabled, group.is_declared) == (1, 3, False, True)


def test_runs_of_a_subscription_are_found_by_what_their_ids_begin_with():
    immediate, cooled = lines(row(1, queue="a/b"), row(2, queue="x", dag_id="d", cooldown=5, group_key="d"))

    assert (immediate.runs_prefix, cooled.runs_prefix) == ("rmq__a_b__", "rmq_cooldown__d__")


# --- order, search, pages


def test_ungrouped_rows_come_first_and_groups_stay_together():
    rows = [
        row(1, dag_id="z", group_key="z"),
        row(2, queue="q2"),
        row(3, dag_id="a", group_key="a", queue="q3"),
        row(4, dag_id="z", group_key="z", queue="q4"),
    ]

    assert [(group.key, [line.id for line in group.lines]) for group in groups(*rows)] == [
        (None, [2]),
        ("a", [3]),
        ("z", [1, 4]),
    ]


@pytest.mark.parametrize(
    ("search", "found"), [("", 2), ("orders", 2), ("DAG_1", 1), ("dag_1 error", 0), ("ui off", 1), ("%", 0)]
)
def test_all_words_must_occur(search, found):
    rows = [row(1), row(2, source=Source.UI, enabled=False)]

    _, paging = select_groups(rows, search, 1)

    assert (paging.matching, paging.total) == (found, 2)


@pytest.mark.parametrize(
    ("page", "shown", "first"), [(1, 50, 1), (2, 50, 51), (3, 20, 101), (99, 20, 101), (-5, 50, 1)]
)
def test_pages_hold_fifty_lines_and_a_page_outside_is_the_nearest(page, shown, first):
    rows = [row(number, queue=f"q{number}") for number in range(1, 121)]

    found = lines(*rows, page=page)

    assert (len(found), found[0].id) == (shown, first)


def test_a_group_is_never_torn_apart():
    rows = [row(number, queue=f"q{number}") for number in range(1, 50)]
    rows += [row(100 + number, queue=f"g{number}", dag_id="d", group_key="d") for number in range(5)]

    assert len(lines(*rows)) == 54


# --- connections


@pytest.mark.parametrize(
    ("consumers", "broker", "expected"), [(2, 2, None), (2, None, None), (2, 1, "fewer"), (2, 3, "more")]
)
def test_numbers_that_differ_are_explained(consumers, broker, expected):
    stored = ConnectionRow(conn_id="c", status="connected", consumers=consumers, broker_consumers=broker)

    (line,) = lay_out_connections([stored], NOW, 360)

    assert (line.differs is None) if expected is None else line.differs.startswith(expected)


@pytest.mark.parametrize(("age", "is_stale"), [(0, False), (360, False), (361, True), (None, True), (-30, False)])
def test_a_stamp_older_than_an_interval_and_a_budget_is_stale(age, is_stale):
    moment = None if age is None else NOW - timedelta(seconds=age)

    (line,) = lay_out_connections(
        [ConnectionRow(conn_id="c", status="unknown", consumers=0, reconciled_at=moment)], NOW, 360
    )

    assert line.is_stale is is_stale
    assert line.age is None if age is None else line.age == max(age, 0)


# --- what is offered


def test_without_its_table_nothing_can_be_created():
    assert SubscriptionsPage(allowed=Allowed(create=True)).offers_create
    assert not SubscriptionsPage(allowed=Allowed(create=True), subscriptions_notice="behind").offers_create
    assert not SubscriptionsPage().offers_create


# --- forms


def test_a_declared_subscription_can_only_be_switched():
    assert form_of_row(row(1)).only_enabled
    assert not form_of_row(row(1, source=Source.UI)).only_enabled


@pytest.mark.parametrize(
    ("answers", "box", "mixed"),
    [((True, True), True, False), ((False, False), False, False), ((True, False), False, True)],
)
def test_the_box_of_a_group_is_on_only_when_all_agree(answers, box, mixed):
    page = form_of_group(
        [
            row(n, queue=f"q{n}", dag_id="d", group_key="d", source=Source.UI, ack_unmatched=answer)
            for n, answer in enumerate(answers)
        ]
    )

    assert (page.form.ack_unmatched, page.mixed_ack_unmatched) == (box, mixed)


def test_declared_members_of_a_group_are_not_offered_for_editing():
    page = form_of_group(
        [
            row(1, queue="declared", dag_id="d", group_key="d"),
            row(2, queue="own", dag_id="d", group_key="d", source=Source.UI),
        ]
    )

    assert (page.form.queue_names, page.declared_queues, page.only_enabled) == (("own",), ("declared",), False)
