"""Functions as `"package.module:function"`: the form in which a filter callable reaches another process."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from airflow_provider_rmq.errors import ConfigurationError

_FORM = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def check_import_path(parameter: str, path: str) -> None:
    """Refuse what cannot be an import path; whether it resolves shows where it is used.

    Raises:
        ConfigurationError: The text has another form.
    """
    if not _FORM.fullmatch(path):
        raise ConfigurationError(f'{parameter} as text must be an import path "package.module:function", not {path!r}')


def resolve_import_path(path: str) -> Callable[..., Any]:
    """The function at the path.

    Raises:
        ImportError: The module, or the function in it, does not exist.
        TypeError: What is there cannot be called.
    """
    module_name, _, attributes = path.partition(":")
    found: Any = import_module(module_name)
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            raise ImportError(f"{path}: module {module_name} has no {attributes}")
        found = getattr(found, attribute)
    if not callable(found):
        raise TypeError(f"{path} is no function but {type(found).__name__}")
    function: Callable[..., Any] = found
    return function


def import_path_of(parameter: str, function: Callable[..., Any]) -> str:
    """The path under which another process finds this very function.

    Airflow loads DAG files under a module name of its own (`unusual_prefix_...`) that no other process can import,
    so a function of the DAG file itself is refused, too.

    Raises:
        ConfigurationError: It is a lambda, a closure, a bound method, or lives in no importable module.
    """
    name = getattr(function, "__qualname__", "")
    module_name = getattr(function, "__module__", None) or ""
    path = f"{module_name}:{name}"
    if not _FORM.fullmatch(path):
        raise ConfigurationError(f"{parameter}: {_what(function)} cannot be found by another process; {_ADVICE}")
    if not _importable(module_name.partition(".")[0]):
        raise ConfigurationError(
            f"{parameter}: {name} is defined in {module_name}, which no other process can import; {_ADVICE}"
        )
    try:
        same = resolve_import_path(path) is function
    except (ImportError, TypeError):
        same = False
    if not same:
        raise ConfigurationError(f"{parameter}: {path} is not this function; {_ADVICE}")
    return path


_ADVICE = 'give a module-level function of a module on the Python path, or its import path "package.module:function"'


def _what(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", repr(function))
    if "<lambda>" in name:
        return "a lambda"
    return f"the local function {name}" if "<locals>" in name else f"{function!r}"


def _importable(root: str) -> bool:
    """Whether a finder knows the top-level module, whatever `sys.modules` holds already."""
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        if find_spec is not None and find_spec(root, None) is not None:
            return True
    return False
