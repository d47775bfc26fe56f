"""The growing pause."""

from airflow_provider_rmq.messages.backoff import Backoff


def test_it_doubles_from_one_second_to_a_minute():
    backoff = Backoff()

    assert [backoff.next() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_success_starts_it_over():
    backoff = Backoff(first=0.5, limit=5)
    backoff.next()
    backoff.next()

    backoff.reset()

    assert backoff.next() == 0.5


def test_it_never_overflows():
    backoff = Backoff(failures=10_000)

    assert backoff.next() == 60
