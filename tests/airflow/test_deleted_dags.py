"""Whether anybody would resume a deferred task (B35)."""

from types import SimpleNamespace

import pytest

from airflow_provider_rmq.compat import is_dag_gone


def trigger_of(dag_id):
    return SimpleNamespace(task_instance=SimpleNamespace(dag_id=dag_id))


@pytest.mark.parametrize(
    ("state", "is_gone"), [({}, False), ({"paused": True}, False), ({"active": False}, True), (None, True)]
)
def test_a_deleted_dag_is_told_from_a_paused_one(make_dag, session, state, is_gone):
    if state is not None:
        make_dag(f"gone_{is_gone}_{'_'.join(state)}", **state)

    dag_id = "never_heard_of" if state is None else f"gone_{is_gone}_{'_'.join(state)}"
    assert is_dag_gone(trigger_of(dag_id)) is is_gone


def test_a_trigger_without_a_task_has_no_dag_to_be_gone():
    assert is_dag_gone(SimpleNamespace()) is False
