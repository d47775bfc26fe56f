"""What the scan complains about is where the web server can read it."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import text

from airflow_provider_rmq.watcher.declarations import Complaint
from airflow_provider_rmq.watcher.rows.complaints import MOST, ComplaintStore, load_complaints
from airflow_provider_rmq.watcher.rows.schema import ensure_schema

NOW = datetime(2026, 3, 1, 12)
KEEP = 360.0


def complaint(number=1, path="orders.py"):
    return Complaint(path=path, line=number, dag_id="d", queue="q", parameter="cooldown", reason="is computed")


def store(session, complaints, *, by, seconds=0):
    by.replace(session, complaints, NOW + timedelta(seconds=seconds), KEEP)


@pytest.fixture
def ours():
    return ComplaintStore()


def lines(session):
    return [item.text.split(":")[1] for item in load_complaints(session)]


def test_a_complaint_is_stored_with_its_words_and_repeated_without_a_second_row(session, ours):
    for seconds in (0, 60):
        store(session, [complaint()], by=ours, seconds=seconds)

    (stored,) = load_complaints(session)
    assert stored.text == str(complaint())
    assert (stored.path, stored.dag_id, stored.queue) == ("orders.py", "d", "q")
    assert (stored.first_seen_at, stored.seen_at) == (NOW, NOW + timedelta(seconds=60))


def test_a_complaint_that_is_settled_goes_at_once(session, ours):
    store(session, [complaint(1), complaint(2)], by=ours)
    store(session, [complaint(2)], by=ours)

    assert lines(session) == ["2"]


def test_the_complaints_of_another_scheduler_stay_while_it_repeats_them(session, ours):
    store(session, [complaint(1)], by=ComplaintStore())
    store(session, [complaint(2)], by=ours, seconds=KEEP)
    assert lines(session) == ["1", "2"]

    store(session, [complaint(2)], by=ours, seconds=KEEP + 1)

    assert lines(session) == ["2"]


def test_what_is_strange_in_a_file_name_is_stored_all_the_same(session, ours):
    store(session, [complaint(path="a\udcff\0b.py")], by=ours)

    assert load_complaints(session)[0].path == "a?\\0b.py"


def test_their_number_is_bounded(session, ours):
    store(session, [complaint(number) for number in range(MOST + 50)], by=ours)

    assert len(load_complaints(session)) == MOST


def test_without_the_table_there_are_none(session, ours):
    session.execute(text("DROP TABLE rmq_watcher_complaints"))

    assert load_complaints(session) == ()
    session.rollback()
    ensure_schema(session)
