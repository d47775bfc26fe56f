"""A function gets a path only where another process finds the same function under it."""

import functools

import pytest

from airflow_provider_rmq.messages.import_paths import import_path_of, resolve_import_path


def module_level(_properties, _body):
    return True


def made_by_a_function():
    def inner(_properties, _body):
        return True

    return inner


class Rules:
    def bound(self, _properties, _body):
        return True


class OfADagFile:
    """Stands for a function that Airflow loaded from a DAG file under a module name of its own."""

    __module__ = "unusual_prefix_0123abc_orders"
    __qualname__ = "urgent"

    def __call__(self, _properties, _body):
        return True


def test_a_module_level_function_has_a_path_that_leads_back_to_it():
    path = import_path_of("filter_callable", module_level)

    assert path == "test_import_paths:module_level"
    assert resolve_import_path(path) is module_level


@pytest.mark.parametrize(
    "function",
    [
        lambda _properties, _body: True,
        made_by_a_function(),
        functools.partial(module_level),
        Rules().bound,
        functools.wraps(module_level)(lambda *_: False),
    ],
)
def test_what_another_process_cannot_find_is_refused_with_what_to_give(function):
    with pytest.raises(ValueError, match=r"filter_callable.*package\.module:function"):
        import_path_of("filter_callable", function)


def test_a_function_of_a_dag_file_is_refused():
    function = OfADagFile()
    function.__qualname__ = "urgent"

    with pytest.raises(ValueError, match="unusual_prefix"):
        import_path_of("filter_callable", function)
