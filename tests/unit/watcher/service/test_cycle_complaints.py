"""What fails in every cycle is said the first time and then on powers of ten."""

import logging

from airflow_provider_rmq.watcher.service.complaints import CycleComplaints

LOG = logging.getLogger("complaints")


def cycles(complaints, count, *texts):
    for _ in range(count):
        for text in texts:
            complaints.error(text)
        complaints.end_cycle()


def said(caplog):
    return [record.message for record in caplog.records]


def test_a_complaint_is_said_the_first_and_the_tenth_and_the_hundredth_time(caplog):
    cycles(CycleComplaints(LOG), 150, "broken")

    assert said(caplog) == ["broken", "broken (for the 10th time)", "broken (for the 100th time)"]


def test_within_a_cycle_it_is_said_once(caplog):
    complaints = CycleComplaints(LOG)
    cycles(complaints, 1, "broken", "broken")
    cycles(complaints, 8, "broken")
    assert said(caplog) == ["broken"]


def test_what_was_over_is_news_again(caplog):
    complaints = CycleComplaints(LOG)
    cycles(complaints, 3, "broken")
    cycles(complaints, 1)
    cycles(complaints, 1, "broken")

    assert said(caplog) == ["broken", "broken"]


def test_complaints_are_counted_apart(caplog):
    cycles(CycleComplaints(LOG), 2, "one", "two")

    assert said(caplog) == ["one", "two"]
