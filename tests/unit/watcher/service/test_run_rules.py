"""What an installation's configuration says about runs, and what the log says about it."""

import pytest

from airflow_provider_rmq.watcher.service.run_rules import read_run_rules


def rules(body=None, pattern=None):
    options = {("rmq_watcher", "max_conf_body_bytes"): body, ("scheduler", "allowed_run_id_pattern"): pattern}
    return read_run_rules(lambda section, option: options[section, option])


@pytest.mark.parametrize(
    ("text", "size"),
    [(None, 262_144), ("", 262_144), ("1000", 1000), ("0", 262_144), ("-1", 262_144), ("1e6", 262_144)],
)
def test_the_bound_of_a_body(text, size, caplog):
    assert rules(body=text).bounds.body == size
    assert bool(caplog.records) is (text in {"0", "-1", "1e6"})


@pytest.mark.parametrize("pattern", [None, r"^[A-Za-z0-9_.~:+-]+$", r"^rmq__"])
def test_a_pattern_that_allows_the_usual_ids_is_nothing_to_talk_about(pattern, caplog):
    rules(pattern=pattern)

    assert caplog.records == []


def test_a_pattern_that_only_a_digest_meets_is_a_warning(caplog):
    """R21."""
    found = rules(pattern=r"^rmq_[0-9a-f]+$")

    assert found.accepts("rmq_0af")
    assert not found.accepts("rmq__orders__m1")
    (record,) = caplog.records
    assert (record.levelname, "digests instead" in record.message) == ("WARNING", True)


@pytest.mark.parametrize("pattern", ["^never$", " ", r"^\d+$"])
def test_a_pattern_that_nothing_meets_is_an_error_at_the_start(pattern, caplog):
    """R21: reported at start, not with each message."""
    rules(pattern=pattern)

    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert "allowed_run_id_pattern" in record.message


def test_a_pattern_that_python_does_not_know_is_left_to_airflow(caplog):
    assert rules(pattern=r"\pN+(").accepts is None
    assert "cannot be judged" in caplog.text
