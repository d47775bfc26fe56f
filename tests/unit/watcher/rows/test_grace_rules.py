"""The reference's sentences about grace, each a row: what one listing does to one row."""

import pytest

from airflow_provider_rmq.watcher.rows.sync_plan import Settings, StoredRow, plan_sync
from airflow_provider_rmq.watcher.subscription import Declaration, Source, SubscriptionKey

KEY = SubscriptionKey("orders_dag", "orders", "rmq_default")
DECLARED = Declaration(key=KEY)
ACTIVE, INACTIVE = frozenset(), frozenset({"orders_dag"})


def row(misses=0, *, enabled=True, source=Source.DAG_FILE, settings=None):
    stored = settings or Settings({}, 0, ack_unmatched=False)
    return StoredRow(id=7, key=KEY, source=source, enabled=enabled, misses=misses, settings=stored)


def fates(rows, declared, inactive):
    plan = plan_sync(rows, declared, inactive)
    found = {name for name in plan.__dataclass_fields__ if getattr(plan, name)}
    return found or {"nothing"}


@pytest.mark.parametrize(
    ("stored", "declared", "inactive", "fate"),
    [
        pytest.param([], {DECLARED}, ACTIVE, "inserts", id="a new key becomes a row"),
        pytest.param([row()], {DECLARED}, ACTIVE, "nothing", id="a known key changes nothing"),
        pytest.param([row()], {DECLARED}, INACTIVE, "nothing", id="nor does an inactive DAG while it is declared"),
        pytest.param([row(9)], {DECLARED}, INACTIVE, "found_again", id="a key found clears the count"),
        pytest.param([row(0)], set(), ACTIVE, "misses", id="first miss: survived"),
        pytest.param([row(1)], set(), ACTIVE, "misses", id="second miss: survived"),
        pytest.param([row(2)], set(), ACTIVE, "misses", id="third miss: survived"),
        pytest.param([row(3)], set(), ACTIVE, "deletions", id="the fourth deletes"),
        pytest.param([row(8)], set(), ACTIVE, "deletions", id="a count beyond it deletes as well"),
        pytest.param([row(0)], set(), INACTIVE, "misses", id="enabled, inactive DAG: first miss survived"),
        pytest.param([row(1)], set(), INACTIVE, "misses", id="enabled, inactive DAG: second miss survived"),
        pytest.param([row(2)], set(), INACTIVE, "deletions", id="enabled, inactive DAG: goes on the third"),
        pytest.param([row(0, enabled=False)], set(), INACTIVE, "misses", id="disabled: the full grace, 1"),
        pytest.param([row(1, enabled=False)], set(), INACTIVE, "misses", id="disabled: the full grace, 2"),
        pytest.param([row(2, enabled=False)], set(), INACTIVE, "misses", id="disabled: the full grace, 3"),
        pytest.param([row(3, enabled=False)], set(), INACTIVE, "deletions", id="disabled: the fourth deletes"),
        pytest.param([row(2, enabled=False)], set(), ACTIVE, "misses", id="disabled, active DAG: the same"),
        pytest.param([row(source=Source.UI)], set(), INACTIVE, "nothing", id="the UI's rows count no misses"),
        pytest.param([row(9, source=Source.UI)], set(), ACTIVE, "nothing", id="and are never deleted"),
        pytest.param([row(source=Source.UI)], {DECLARED}, ACTIVE, "foreign", id="nor taken over (L15)"),
        pytest.param(
            [row(settings=Settings({}, 60, ack_unmatched=False))],
            {DECLARED},
            ACTIVE,
            "changes",
            id="settings follow the file",
        ),
    ],
)
def test_the_fate_of_one_row(stored, declared, inactive, fate):
    assert fates(stored, declared, inactive) == {fate}


def test_a_row_that_is_found_with_other_settings_is_changed_and_cleared():
    assert fates([row(2, settings=Settings({}, 60, ack_unmatched=False))], {DECLARED}, ACTIVE) == {
        "changes",
        "found_again",
    }


def test_a_miss_changes_nothing_but_the_count():
    plan = plan_sync([row(1, enabled=False)], set(), ACTIVE)

    (missed,) = plan.misses
    assert (missed.id, missed.enabled, missed.misses) == (7, False, 1)
    assert plan.changes == ()
