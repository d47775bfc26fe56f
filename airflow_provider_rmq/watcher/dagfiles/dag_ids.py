"""Values a DAG file states in plain sight: literals, module constants, and the dag_id made of them.

Pure: syntax tree in, values out. `decorator_calls` uses it to read `rmq_trigger` calls.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

#: Fields of a statement, a handler or a case that hold statements, handlers or cases.
_BLOCKS = ("cases", "finalbody", "orelse", "handlers", "body")
#: The statements a file mostly consists of, which hold none.
_SIMPLE = (ast.Expr, ast.Assign, ast.Return, ast.Import, ast.ImportFrom, ast.AnnAssign, ast.Raise)


class Unreadable(Exception):
    """An expression whose value only running the file would tell."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A module-level name that is assigned once."""

    value: ast.expr
    line: int


class Constants:
    """The module-level constants of one file; looked for when the first is asked for."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._found: dict[str, Constant] | None = None

    def _constant(self, name: str) -> Constant | None:
        """A name assigned exactly once at module level and nowhere rebound."""
        if self._found is None:
            bound = Counter(_bound_names(self._tree))
            self._found = {
                found: Constant(value, line)
                for found, value, line in _plain_assignments(self._tree)
                if bound[found] == 1
            }
        return self._found.get(name)

    def value(self, node: ast.expr, *, before: int) -> Any:
        """The value of an expression that stands on line `before`.

        Raises:
            Unreadable: It is neither a literal nor made of literals and earlier constants.
        """
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                constant = self._constant(name)
                if constant is None or constant.line >= before:
                    raise Unreadable(f"names {name}, which is no constant assigned once and earlier at module level")
                return self.value(constant.value, before=constant.line)
            case ast.List(elts=items):
                return [self.value(item, before=before) for item in items]
            case ast.Tuple(elts=items):
                return tuple(self.value(item, before=before) for item in items)
            case ast.Dict(keys=keys, values=values) if None not in keys:
                pairs = zip(keys, values, strict=True)
                return {self._key(key, before): self.value(item, before=before) for key, item in pairs if key}
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
        raise Unreadable(f"is computed ({_shortened(node)}), and the watcher never runs the file")

    def _key(self, node: ast.expr, before: int) -> Any:
        key = self.value(node, before=before)
        try:
            hash(key)
        except TypeError:
            raise Unreadable("has a key that is no plain value") from None
        return key


def dag_id_of(call: ast.Call, constants: Constants, *, default: str | None) -> str:
    """The dag_id of a `@dag(...)` or `DAG(...)` call.

    Args:
        call: The call.
        constants: Of the file it stands in.
        default: The id where the call names none: the function's name below `@dag`, None for `DAG(...)`.

    Raises:
        Unreadable: The id cannot be told from the text.
    """
    if any(isinstance(argument, ast.Starred) for argument in call.args) or any(
        keyword.arg is None for keyword in call.keywords
    ):
        raise Unreadable("may hide in an unpacked argument (* or **)")
    given = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "dag_id")]
    if len(given) > 1:
        raise Unreadable("is given twice")
    value = constants.value(given[0], before=call.lineno) if given else default
    if not isinstance(value, str) or not value:
        raise Unreadable("is missing" if value is None else f"is {value!r}, not a text")
    return value


def statements(scope: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[ast.stmt]:
    """Every statement in a scope at any depth, in their order, without looking into expressions."""
    pending: list[ast.AST] = [*scope.body[::-1]]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, _SIMPLE):
            continue
        for part in _BLOCKS:
            pending.extend(getattr(node, part, ())[::-1])


def _plain_assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr, int]]:
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value, statement.lineno
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value, statement.lineno
            case _:
                pass


def _bound_names(tree: ast.Module) -> Iterator[str]:
    """Every binding that could change a module-level name, each once per binding."""
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
                yield from _globals_in(node)
                continue  # what is bound inside stays inside
            case ast.Lambda():
                continue
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.alias(name=name, asname=asname):
                yield asname or name.partition(".")[0]
            case _:
                pass
        pending.extend(ast.iter_child_nodes(node))


def _globals_in(scope: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[str]:
    for node in statements(scope):
        if isinstance(node, ast.Global):
            yield from node.names


def _shortened(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - about half a log line
