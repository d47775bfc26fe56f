"""The plan of a sync is a pure function: every key is dealt with once, and nothing else is touched."""

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rmq.watcher.rows.sync_plan import StoredRow, plan_sync
from airflow_provider_rmq.watcher.subscription import Declaration, Source, SubscriptionKey

keys = st.builds(SubscriptionKey, st.sampled_from("abc"), st.sampled_from("qr"), st.just("rmq_default"))
stored = st.lists(
    st.builds(
        StoredRow,
        id=st.integers(1, 10_000),
        key=keys,
        source=st.sampled_from(Source),
        enabled=st.booleans(),
        misses=st.integers(0, 4),
    ),
    unique_by=(lambda row: row.key, lambda row: row.id),
)


@given(stored, st.frozensets(st.builds(Declaration, key=keys)), st.frozensets(st.sampled_from("abc")))
def test_every_row_and_declaration_has_exactly_one_fate(rows, declared, inactive):
    plan = plan_sync(rows, declared, inactive)
    wanted = {item.key for item in declared}
    ours = {row.key for row in rows if row.source is Source.DAG_FILE}

    assert {item.key for item in plan.inserts} == wanted - {row.key for row in rows}
    assert {row.key for row in plan.misses} | {row.key for row in plan.deletions} == ours - wanted
    assert not set(plan.misses) & set(plan.deletions)
    assert {row.key for row, _ in plan.foreign} == wanted & {row.key for row in rows if row.source is Source.UI}
    assert all(row.misses >= 2 for row in plan.deletions)
    assert all(row.misses >= 3 for row in plan.deletions if not row.enabled)


@given(stored, st.frozensets(st.builds(Declaration, key=keys)))
def test_what_is_declared_is_never_deleted(rows, declared):
    plan = plan_sync(rows, declared, frozenset("abc"))

    assert not {row.key for row in plan.deletions} & {item.key for item in declared}
