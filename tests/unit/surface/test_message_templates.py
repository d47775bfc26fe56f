"""A message is rendered inside, and nothing but its templates changes."""

import datetime as dt

import pytest
from airflow.models.dag import DAG

from airflow_provider_rmq.operators.payloads import bodies_of
from airflow_provider_rmq.operators.rmq_publish import RMQPublishOperator

MESSAGE = {
    "file": "s3://b/a.json",
    "ver": "1.0",
    "n": 1,
    "ok": True,
    "none": None,
    "t": "{{ ds }}",
    "list": [1, "{{ ds }}", {"deep": "{{ ds }}"}],
    "brace": "100 % {off}",
}


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("message", [MESSAGE, [MESSAGE, "{{ ds }}"]])
def test_types_are_kept_and_only_templates_are_rendered(native, message):
    """R53."""
    with DAG(
        "d",
        schedule=None,
        start_date=dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc),
        render_template_as_native_obj=native,
    ):
        operator = RMQPublishOperator(task_id="t", queue_name="q", message=message)

    operator.render_template_fields({"ds": "2026-11-30"})

    rendered = {**MESSAGE, "t": "2026-11-30", "list": [1, "2026-11-30", {"deep": "2026-11-30"}]}
    assert operator.message == (rendered if isinstance(message, dict) else [rendered, "2026-11-30"])
    assert len(bodies_of(operator.message)) == (1 if isinstance(message, dict) else 2)


@pytest.mark.parametrize("message", [{"a": float("nan")}, {"a": object()}, {(1, 2): 3}])
def test_a_dict_that_is_no_json_is_named_by_its_index(message):
    with pytest.raises(ValueError, match=r"message\[1\] cannot be written as JSON"):
        bodies_of(["ok", message])


def test_mapped_operators_take_a_message_each():
    with DAG("mapped", schedule=None, start_date=dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)):
        mapped = RMQPublishOperator.partial(task_id="t", queue_name="q").expand(message=[{"n": 1}, {"n": 2}])

    assert mapped.operator_class is RMQPublishOperator
