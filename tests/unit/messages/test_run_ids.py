"""Run ids: the same message always finds the same run, and Airflow accepts every one of them."""

import re
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rmq.messages.message import Message
from airflow_provider_rmq.messages.run_ids import cooldown_run_id, immediate_run_id, safe_run_id

NOW = datetime(2026, 3, 1, 12, 30, 15, 42, tzinfo=timezone.utc)


def message(message_id, queue="orders"):
    return Message(body=b"", headers={}, routing_key="orders", exchange="", queue=queue, message_id=message_id)


def test_a_message_id_makes_the_run_id():
    assert immediate_run_id(message("m1"), NOW) == "rmq__orders__m1"


@pytest.mark.parametrize("missing", [None, ""])
def test_without_a_message_id_the_moment_makes_it(missing):
    assert immediate_run_id(message(missing), NOW) == "rmq__orders__20260301T123015000042"


def test_the_moment_is_told_in_utc():
    berlin = NOW.astimezone(timezone(timedelta(hours=1)))

    assert immediate_run_id(message(None), berlin) == immediate_run_id(message(None), NOW)


def test_a_cooldown_marker_has_an_id_of_its_dag():
    assert cooldown_run_id("my_dag", "8c2f") == "rmq_cooldown__my_dag__8c2f"


def test_cleaned_ids_keep_what_is_readable_and_stay_apart():
    slash, underscore = safe_run_id("rmq__q__a/b"), safe_run_id("rmq__q__a_b")

    assert slash.startswith("rmq__q__a_b_")
    assert underscore == "rmq__q__a_b"


def test_an_id_of_the_full_width_is_not_touched():
    assert safe_run_id("x" * 250) == "x" * 250


def test_a_longer_id_is_cut_and_carries_a_digest():
    shortened = safe_run_id("x" * 251)

    assert len(shortened) == 250
    assert re.fullmatch(r"x{217}_[0-9a-f]{32}", shortened)


def test_a_known_digest_stays_what_the_releases_before_produced():
    assert safe_run_id("rmq__q__ü") == "rmq__q____6084298bc2db8196e374174f26cf02f4"


@given(st.text())
def test_every_text_becomes_an_id_that_airflow_accepts(text):
    run_id = safe_run_id(f"rmq__q__{text}")

    assert re.fullmatch(r"[A-Za-z0-9_.~:+-]{1,250}", run_id)
    assert run_id == safe_run_id(f"rmq__q__{text}")


@given(st.text(), st.text())
def test_different_messages_have_different_ids(left, right):
    same = left.encode("utf-8", "replace") == right.encode("utf-8", "replace")

    assert (safe_run_id(left) == safe_run_id(right)) == same


@pytest.mark.parametrize(
    ("pattern", "form"),
    [
        (r"^[A-Za-z0-9_.~:+-]+$", r"rmq__orders__order/42".replace("/", "_")),
        (r"^rmq__[0-9a-f]{32}$", "rmq__[0-9a-f]{32}"),
        (r"^rmq_[0-9a-f]+$", "rmq_[0-9a-f]{32}"),
        (r"^[a-z0-9-]+$", "rmq-[0-9a-f]{32}"),
        (r"^[0-9a-f]+$", "[0-9a-f]{32}"),
    ],
)
def test_a_pattern_of_the_installation_is_met_where_a_digest_meets_it(pattern, form):
    """B25, R21."""
    accepts = re.compile(pattern).match

    run_ids = [
        safe_run_id(f"rmq__orders__{message_id}", accepts) for message_id in ("order/42", "order_42", "order/42")
    ]

    assert all(re.match(pattern, run_id) for run_id in run_ids)
    assert re.match(form, run_ids[0])
    assert run_ids[0] == run_ids[2] != run_ids[1]


def test_a_pattern_that_nothing_meets_leaves_the_usual_id():
    assert safe_run_id("rmq__orders__m1", re.compile("^never$").match) == "rmq__orders__m1"


@pytest.mark.parametrize(
    "message_id", ["order/42", "a b", "ü", "a|b", "{uuid}", "a%2Fb", "abc\n", "\u2603", "x" * 255, "\udcff"]
)
def test_odd_message_ids_give_ids_that_airflow_allows(message_id):
    """B25, R21: letters, digits and _ . ~ : + -, at most 250, and no line break at the end."""
    run_id = safe_run_id(f"rmq__orders__{message_id}")

    assert re.fullmatch(r"[A-Za-z0-9_.~:+-]{1,250}", run_id)
    assert run_id == safe_run_id(f"rmq__orders__{message_id}")
