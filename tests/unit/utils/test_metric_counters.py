"""Counting a metric never disturbs who counts."""

import logging

from airflow_provider_rmq.utils import metrics


def test_a_counter_reaches_airflow(monkeypatch):
    counted = []
    monkeypatch.setattr(metrics, "count_metric", counted.append)

    metrics.incr("rmq_watcher.filter_missed")

    assert counted == ["rmq_watcher.filter_missed"]


def test_a_failing_backend_is_logged_and_not_raised(monkeypatch, caplog):
    def fails(_name):
        raise OSError("no statsd")

    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(metrics, "count_metric", fails)

    for _ in range(9):
        metrics.incr("x")

    assert len(caplog.records) <= 1
