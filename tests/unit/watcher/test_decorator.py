"""`@rmq_trigger` checks what it is given, marks the DAG, and changes nothing else."""

import pytest

from airflow_provider_rmq.errors import ConfigurationError
from airflow_provider_rmq.watcher import rmq_trigger


class DAG:
    """Stands in for Airflow's class of this name, which costs seconds to import; `tests/airflow` uses the real one."""

    def __init__(self, dag_id="orders_dag"):
        self.dag_id = dag_id


def factory():
    """Makes a DAG."""
    return DAG()


def test_a_dag_object_is_returned_itself_with_its_subscription():
    dag = DAG()

    assert rmq_trigger(queue="orders")(dag) is dag
    assert dag._rmq_subscriptions == [
        {"queue_name": "orders", "conn_id": "rmq_default", "filter_data": {}, "cooldown": 0, "ack_unmatched": False}
    ]


def test_a_factory_keeps_its_name_and_its_dag_gets_the_subscription():
    decorated = rmq_trigger(queue="orders", conn_id="other_broker")(factory)

    assert (decorated.__name__, decorated.__doc__) == ("factory", "Makes a DAG.")
    (subscription,) = decorated()._rmq_subscriptions
    assert (subscription["queue_name"], subscription["conn_id"]) == ("orders", "other_broker")


def test_stacked_decorators_add_up():
    dag = rmq_trigger(queue="a")(rmq_trigger(queue="b")(DAG()))

    assert [item["queue_name"] for item in dag._rmq_subscriptions] == ["b", "a"]


def test_a_wrong_argument_is_a_value_error_too():
    with pytest.raises(ValueError, match="queue"):
        rmq_trigger(queue="")(factory)()


def test_a_dag_object_is_refused_its_wrong_argument_at_once():
    with pytest.raises(ConfigurationError, match="exactly one of queue, queues and exchange"):
        rmq_trigger()(DAG())


def test_an_unknown_argument_is_a_type_error():
    with pytest.raises(TypeError, match="nonsense"):
        rmq_trigger(queue="q", nonsense=1)


def test_a_second_exchange_on_one_dag_is_refused():
    dag = rmq_trigger(exchange="a", routing_keys=["k"])(DAG())

    with pytest.raises(ConfigurationError, match="DAG orders_dag: a second exchange is not supported"):
        rmq_trigger(exchange="b", routing_keys=["k"])(dag)


def test_it_refuses_what_is_neither_a_dag_nor_callable():
    with pytest.raises(TypeError, match="DAG instance or a callable, not int"):
        rmq_trigger(queue="q")(5)


def test_below_the_dag_decorator_it_says_where_it_belongs():
    def task_function():
        return None

    with pytest.raises(TypeError, match="did not produce a DAG but NoneType; rmq_trigger belongs above"):
        rmq_trigger(queue="q")(task_function)()
