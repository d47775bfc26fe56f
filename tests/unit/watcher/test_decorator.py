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
    assert dag._rmq_subscriptions == [{"queue_name": "orders", "conn_id": "rmq_default"}]


def test_a_factory_keeps_its_name_and_its_dag_gets_the_subscription():
    decorated = rmq_trigger("orders", "other_broker")(factory)

    assert (decorated.__name__, decorated.__doc__) == ("factory", "Makes a DAG.")
    assert decorated()._rmq_subscriptions == [{"queue_name": "orders", "conn_id": "other_broker"}]


def test_stacked_decorators_add_up():
    dag = rmq_trigger(queue="a")(rmq_trigger(queue="b")(DAG()))

    assert [item["queue_name"] for item in dag._rmq_subscriptions] == ["b", "a"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"queue": ""}, "queue must name a queue"),
        ({"queue": 7}, "queue must be a str, int was given: 7"),
        ({"queue": None}, "queue must be a str, NoneType"),
        ({"queue": ["a"]}, "queue must be a str, list"),
        ({"queue": "q" * 256}, "longer than the 255 bytes"),
        ({"queue": "ж" * 128}, "longer than the 255 bytes"),
        ({"queue": "q" * 251}, "queue has 251 characters, 250 are allowed"),
        ({"queue": "q", "conn_id": ""}, "conn_id must name"),
        ({"queue": "q", "conn_id": 5}, "conn_id must be a str"),
        ({"queue": "q", "conn_id": "c" * 251}, "conn_id has 251 characters"),
    ],
)
def test_a_wrong_argument_says_what_was_given_and_what_is_allowed(arguments, words):
    with pytest.raises(ConfigurationError, match=words):
        rmq_trigger(**arguments)(DAG())


def test_a_wrong_argument_is_a_value_error_too():
    with pytest.raises(ValueError, match="queue"):
        rmq_trigger(queue="")(factory)()


def test_an_unknown_argument_is_a_type_error():
    with pytest.raises(TypeError, match="nonsense"):
        rmq_trigger(queue="q", nonsense=1)


def test_it_refuses_what_is_neither_a_dag_nor_callable():
    with pytest.raises(TypeError, match="DAG instance or a callable, not int"):
        rmq_trigger(queue="q")(5)


def test_below_the_dag_decorator_it_says_where_it_belongs():
    def task_function():
        return None

    with pytest.raises(TypeError, match="did not produce a DAG but NoneType; rmq_trigger belongs above"):
        rmq_trigger(queue="q")(task_function)()
