"""The DAG of `make demo`: a message in the queue `orders` starts it, and its task prints the message."""

from __future__ import annotations

import json
from typing import Any

import pendulum
from airflow.decorators import dag, task

from airflow_provider_rmq.watcher.decorators import rmq_trigger


@rmq_trigger(queue="orders", conn_id="rmq_default")
@dag(
    dag_id="orders_demo",
    schedule=None,
    start_date=pendulum.datetime(2024, 1, 1, tz="UTC"),
    catchup=False,
    is_paused_upon_creation=False,
)
def orders_demo() -> None:
    @task
    def show_order(dag_run: Any = None) -> str:
        order = json.loads(dag_run.conf["body"])
        text = f"order {order['order_id']}: {order['quantity']} x {order['item']}"
        print(text)
        return text

    show_order()


orders_demo()
