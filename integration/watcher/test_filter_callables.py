"""`filter_data={"filter_callable": "package.module:function"}`: resolved in the watcher, from the DAG folder."""

import textwrap

from integration.lab.airflow import PROJECT
from integration.lab.waiting import wait_until
from integration.watcher.dags import wait_until_listening

DAG_FILE = """
    from datetime import datetime
    from airflow import DAG
    from airflow.operators.empty import EmptyOperator
    from airflow_provider_rmq.watcher.decorators import rmq_trigger

    for_urgent = DAG("urgent", schedule=None, start_date=datetime(2024, 1, 1), is_paused_upon_creation=False)
    for_nobody = DAG("nobody", schedule=None, start_date=datetime(2024, 1, 1), is_paused_upon_creation=False)
    for dag in (for_urgent, for_nobody):
        EmptyOperator(task_id="nothing", dag=dag)

    rmq_trigger(queue="{queue}", filter_data={{"filter_callable": "order_rules:is_urgent"}})(for_urgent)
    rmq_trigger(queue="{queue}.other", filter_data={{"filter_callable": "order_rules:no_such_rule"}})(for_nobody)
"""

RULES = """
    def is_urgent(properties, body):
        return (properties.headers or {}).get("kind") == "order" and "urgent" in body
"""


def test_a_function_of_the_dag_folder_decides_and_one_that_is_not_there_shows_in_its_row(
    airflow_home, vhost, queue_name
):
    other = f"{queue_name}.other"
    for queue in (queue_name, other):
        vhost.declare(queue)
    home = airflow_home(environment={"PYTHONPATH": str(PROJECT)})
    (home.dags / "order_rules.py").write_text(textwrap.dedent(RULES))
    (home.dags / "orders.py").write_text(textwrap.dedent(DAG_FILE.format(queue=queue_name)))
    scheduler = home.start_scheduler()
    try:
        wait_until_listening(home, "urgent")
        vhost.publish(queue_name, "later", "urgent", headers={"kind": "order"})
        vhost.publish(other, "kept")

        def rows():
            return {row["dag_id"]: (row["consumer_status"], row["last_error"]) for row in home.subscriptions()}

        def says_why():
            status, reason = rows().get("nobody", ("", ""))
            return status == "error" and "no_such_rule" in (reason or "")

        wait_until(lambda: home.dag_runs("urgent"), 60, "the run", show=rows)
        wait_until(says_why, 60, "the row to name what cannot be resolved", show=rows)
    finally:
        scheduler.stop()

    assert [run.conf["body"] for run in home.dag_runs("urgent")] == ["urgent"]
    assert home.dag_runs("nobody") == []
    wait_until(lambda: (vhost.depth(queue_name), vhost.depth(other)) == (1, 1), 20, "what nobody wanted")
    vhost.delete(other)
