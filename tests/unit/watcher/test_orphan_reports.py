"""A queue that nothing declares any more is named once, with the command to delete it, and never deleted."""

import logging

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rmq.watcher.orphan_tracker import OrphanTracker, OwnQueue
from airflow_provider_rmq.watcher.service.orphans import OrphanReports

QUEUE = OwnQueue("c", "rmq_watcher.sub.d")


def test_an_orphan_is_told_once_and_again_only_after_it_was_restored():
    tracker = OrphanTracker()
    tracker.mark_provisioned({"a", "b"})

    assert tracker.diff({"a", "b"}) == (set(), set())
    assert tracker.diff({"a"}) == ({"b"}, set())
    assert tracker.diff({"a"}) == (set(), set())
    assert tracker.diff({"a", "b"}) == (set(), {"b"})
    assert tracker.diff({"a"}) == ({"b"}, set())


def test_what_this_process_did_not_provision_is_no_orphan():
    assert OrphanTracker().diff([]) == (set(), set())


@given(st.lists(st.tuples(st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)))))
def test_what_is_told_adds_up_to_what_is(steps):
    tracker, provisioned, told = OrphanTracker(), set(), set()
    for marked, active in steps:
        tracker.mark_provisioned(marked)
        provisioned |= marked
        orphaned, restored = tracker.diff(active)

        assert orphaned.isdisjoint(told)
        assert restored <= told
        told = (told | orphaned) - restored
        assert told == provisioned - active


def test_the_warning_holds_the_command_and_is_not_repeated(caplog):
    caplog.set_level(logging.INFO)
    reports = OrphanReports()
    reports.report({QUEUE}, {QUEUE})
    for _ in range(5):
        reports.report(set(), set())
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "c: nothing declares queue rmq_watcher.sub.d any more" in record.message
    assert "rabbitmqadmin delete queue name=rmq_watcher.sub.d" in record.message

    reports.report({QUEUE}, {QUEUE})
    reports.report(set(), set())

    assert [item.levelname for item in caplog.records] == ["WARNING", "INFO", "WARNING"]


def test_a_name_that_a_shell_would_read_is_quoted(caplog):
    reports = OrphanReports()
    reports.report({OwnQueue("c", "rmq_watcher.sub.a b;c")}, set())

    assert "delete queue name='rmq_watcher.sub.a b;c'" in caplog.text
