"""When a worker that died is started again."""

import pytest

from airflow_provider_rmq.watcher.process.restarts import Leave, RestartAfter, RestartPolicy
from airflow_provider_rmq.watcher.process.signals import end_of


def test_deaths_in_a_row_wait_longer():
    policy = RestartPolicy()

    delays = [policy.next(-9, 10.0).delay for _ in range(8)]

    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]


def test_five_healthy_minutes_start_the_delays_over():
    policy = RestartPolicy()
    for _ in range(5):
        policy.next(1, 10.0)

    assert policy.next(-11, 300.0) == RestartAfter(1)


@pytest.mark.parametrize("code", [0, 2])
def test_a_worker_that_was_stopped_or_started_wrongly_is_not_started_again(code):
    assert RestartPolicy().next(code, 1.0) == Leave(code)


@pytest.mark.parametrize(
    ("code", "words"), [(1, "code 1"), (-9, "signal SIGKILL"), (-14, "signal SIGALRM"), (-99, "signal 99")]
)
def test_an_end_in_words(code, words):
    assert end_of(code) == words
