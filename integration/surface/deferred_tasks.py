"""Deferred sensors as Airflow stores them, without a Scheduler: `python -m integration.surface.deferred_tasks`.

Reads a list of orders from standard input, each a DAG of tasks that wait: `{"dag_id": ..., "triggers": [[path, kwargs],
...]}`. Runs in the environment of an `AirflowHome`.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from typing import Any


def defer(order: dict[str, Any]) -> None:
    """Make the DAG, one run of it, and a deferred task for each trigger."""
    from airflow import DAG
    from airflow.models import Trigger
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.operators.empty import EmptyOperator
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunType

    moment = datetime(2026, 1, 1, tzinfo=timezone.utc)
    with DAG(order["dag_id"], schedule=None, start_date=moment) as dag:
        for number, _ in enumerate(order["triggers"]):
            EmptyOperator(task_id=f"wait_{number}")
    with create_session() as session:
        dag.sync_to_db(session=session)
        SerializedDagModel.write_dag(dag, session=session)
        run = dag.create_dagrun(
            state=DagRunState.RUNNING,
            execution_date=moment,
            run_id="waiting",
            run_type=DagRunType.MANUAL,
            data_interval=(moment, moment),
            session=session,
        )
        for number, (path, arguments) in enumerate(order["triggers"]):
            trigger = Trigger(classpath=path, kwargs=arguments)
            session.add(trigger)
            session.flush()
            instance = run.get_task_instance(f"wait_{number}", session=session)
            instance.trigger_id = trigger.id
            instance.state = "deferred"
            instance.next_method, instance.next_kwargs = "execute_complete", {}
            session.merge(instance)


if __name__ == "__main__":
    for each in json.load(sys.stdin):
        defer(each)
