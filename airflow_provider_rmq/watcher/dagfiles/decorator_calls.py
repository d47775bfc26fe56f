"""From the text of a DAG file to its declared subscriptions and to what could not be read. Pure; never runs a file.

Found are functions decorated with `rmq_trigger(...)` and `dag(...)`, and DAG objects passed to `rmq_trigger(...)`:
`rmq_trigger(queue="orders")(dag)`, whether the DAG comes from `DAG(...)`, `with DAG(...) as dag` or a factory.
"""

from __future__ import annotations

import ast
import warnings
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from airflow_provider_rmq.errors import ConfigurationError
from airflow_provider_rmq.watcher.dagfiles.dag_ids import Constants, Unreadable, dag_id_of, statements
from airflow_provider_rmq.watcher.declarations import Complaint
from airflow_provider_rmq.watcher.subscription import Declaration
from airflow_provider_rmq.watcher.subscription_builder import build_declarations

#: The decorator's parameters that may be given by position, in their order.
POSITIONAL = ("queue", "queues", "conn_id", "filter_data", "cooldown")
#: All of its parameters.
PARAMETERS = frozenset(POSITIONAL) | {
    "exchange",
    "routing_keys",
    "routing_key_ids",
    "routing_key_status",
    "ack_unmatched",
    "keep_payload",
    "mirror",
    "on_filter_error",
}
#: The parameters that tell where the messages come from, for a complaint about another one.
WHENCE = ("queue", "queues", "exchange")


#: What every file that declares something mentions.
TRIGGER = "rmq_trigger"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """What one file declares.

    Args:
        declarations: In the order of the file, a key possibly twice.
        complaints: What could not be read.
        failure: Why the text is no Python.
        mentions: Whether the decorator's name occurs in it at all.
        is_dag_file: Whether it is a file that Airflow loads DAGs from.
    """

    declarations: tuple[Declaration, ...] = ()
    complaints: tuple[Complaint, ...] = ()
    failure: str | None = None
    mentions: bool = False
    is_dag_file: bool = True

    @property
    def says_something(self) -> bool:
        """Whether the file has anything to do with subscriptions."""
        return bool(self.declarations or self.complaints)


def read_file_text(text: str, path: str, *, parse: bool = False) -> FileReading:
    """Read the declarations of one DAG file; never raises, whatever the text.

    Args:
        text: Its source.
        path: Its name in complaints.
        parse: Tell whether the text is Python even where it declares nothing.
    """
    mentions = TRIGGER in text
    if not mentions and not parse:
        return FileReading()  # most files of a DAG folder: not worth a parse
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes are for the DAG's author, not for the watcher's log
            tree = ast.parse(text)
        if not mentions:
            return FileReading()
        reader = _Reader(tree, text, path)
        reader.read()
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return FileReading(failure=f"{type(error).__name__}: {error}", mentions=mentions)
    return FileReading(declarations=tuple(reader.declarations), complaints=tuple(reader.complaints), mentions=True)


@dataclass(slots=True)
class _DagCall:
    """Where a DAG gets its id."""

    call: ast.Call
    default_id: str | None


@dataclass(slots=True)
class _Names:
    """How this file spells the three names that matter."""

    trigger: set[str] = field(default_factory=lambda: {"rmq_trigger"})
    decorator: set[str] = field(default_factory=lambda: {"dag"})
    constructor: set[str] = field(default_factory=lambda: {"DAG"})


class _Reader:
    """Reads one file; looks closely only at the lines that mention the decorator, for most of a file does not."""

    def __init__(self, tree: ast.Module, text: str, path: str) -> None:
        self.path = path
        self.declarations: list[Declaration] = []
        self.complaints: list[Complaint] = []
        self.constants = Constants(tree)
        self.statements = list(statements(tree))
        self.names = _spellings(self.statements)
        self.lines = _lines_with(self.names.trigger, text)
        self.dags = dict(self._named_dags())

    def read(self) -> None:
        applied: set[ast.Call] = set()
        for statement in self.statements:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                applied.update(self._read_function(statement))
        for call in self._calls():
            match call:
                case ast.Call(func=ast.Call() as trigger, args=[target], keywords=[]) if self._is_trigger(trigger):
                    applied.add(trigger)
                    self._declare(trigger, self._dag_behind(target))
                case ast.Call() if self._is_trigger(call) and call not in applied:
                    self._complain(call, None, "dag_id", "cannot be told: the call is not applied to a DAG on the spot")
                case _:
                    pass

    def _is_trigger(self, call: ast.Call) -> bool:
        return _is_call_of(call, self.names.trigger)

    def _calls(self) -> Iterator[ast.Call]:
        """Calls on lines that mention the decorator, the outer one before those inside it."""
        for statement in self.statements:
            pending: list[ast.AST] = [statement] if self._mentions(statement) else []
            while pending:
                node = pending.pop()
                if isinstance(node, ast.Call):
                    yield node
                pending.extend(child for child in ast.iter_child_nodes(node) if self._may_mention(child))

    def _may_mention(self, node: ast.AST) -> bool:
        if isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
            return False  # has its own turn
        return not isinstance(node, ast.expr) or self._mentions(node)  # arguments and the like have no lines

    def _mentions(self, node: ast.stmt | ast.expr) -> bool:
        first = min((decorator.lineno for decorator in getattr(node, "decorator_list", ())), default=node.lineno)
        position = bisect_left(self.lines, first)
        return position < len(self.lines) and self.lines[position] <= (node.end_lineno or node.lineno)

    def _read_function(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.Call]:
        dag = self._dag_call_of(function)
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and self._is_trigger(decorator):
                self._declare(decorator, dag)
                yield decorator

    def _dag_call_of(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> _DagCall | None:
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and _is_call_of(decorator, self.names.decorator):
                return _DagCall(decorator, function.name)
        return None

    def _named_dags(self) -> Iterator[tuple[str, _DagCall]]:
        """Names that hold a DAG object or a DAG factory."""
        for node in self.statements:
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    dag = self._dag_call_of(node)
                    if dag:
                        yield node.name, dag
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as call)
                ) if _is_call_of(call, self.names.constructor):
                    yield name, _DagCall(call, None)
                case ast.With(items=items) | ast.AsyncWith(items=items):
                    yield from self._entered_dags(items)
                case _:
                    pass

    def _entered_dags(self, items: list[ast.withitem]) -> Iterator[tuple[str, _DagCall]]:
        for item in items:
            match item:
                case ast.withitem(context_expr=ast.Call() as call, optional_vars=ast.Name(id=name)) if _is_call_of(
                    call, self.names.constructor
                ):
                    yield name, _DagCall(call, None)
                case _:
                    pass

    def _dag_behind(self, target: ast.expr) -> _DagCall | None:
        match target:
            case ast.Call() if _is_call_of(target, self.names.constructor):
                return _DagCall(target, None)
            case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)):
                return self.dags.get(name)
            case ast.Call(func=ast.Call() as trigger, args=[inner]) if self._is_trigger(trigger):
                return self._dag_behind(inner)
        return None

    def _declare(self, trigger: ast.Call, dag: _DagCall | None) -> None:
        dag_id = self._read_dag_id(trigger, dag)
        given = self._read_arguments(trigger, dag_id)
        if dag_id is None or given is None:
            return
        try:
            declared = build_declarations(dag_id=dag_id, **given)
        except (ConfigurationError, TypeError) as error:
            self._complain(trigger, dag_id, "the call", f"is refused: {error}")
            return
        if any(item.exchange and item.key.dag_id == dag_id for item in self.declarations) and declared[0].exchange:
            self._complain(trigger, dag_id, "exchange", "is the second one of this DAG, which is not supported")
            return
        self.declarations += [replace(item, origin=f"{self.path}:{trigger.lineno}") for item in declared]

    def _read_dag_id(self, trigger: ast.Call, dag: _DagCall | None) -> str | None:
        try:
            if dag is None:
                raise Unreadable("cannot be told: no call of dag(...) or DAG(...) belongs to it")
            return dag_id_of(dag.call, self.constants, default=dag.default_id)
        except Unreadable as error:
            self._complain(trigger, None, "dag_id", str(error))
            return None

    def _read_arguments(self, trigger: ast.Call, dag_id: str | None) -> dict[str, object] | None:
        """The values of the call's arguments; None where one of them hides."""
        readable = True
        given: dict[str, object] = {}
        for name, node in _named_arguments(trigger):
            try:
                if name not in PARAMETERS:
                    raise Unreadable("is not known here")
                if isinstance(node, ast.Starred):
                    raise Unreadable("is unpacked with *, which hides what it holds")
                if name in given:
                    raise Unreadable("is given twice")
                given[name] = self.constants.value(node, before=node.lineno)
            except Unreadable as error:
                readable = False
                self._complain(trigger, dag_id, name, str(error))
        return given if readable else None

    def _readable_queue(self, trigger: ast.Call) -> str | None:
        for name, node in _named_arguments(trigger):
            if name in WHENCE:
                try:
                    value = self.constants.value(node, before=node.lineno)
                except Unreadable:
                    return None
                return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        return None

    def _complain(self, trigger: ast.Call, dag_id: str | None, parameter: str, reason: str) -> None:
        self.complaints.append(
            Complaint(
                path=self.path,
                line=trigger.lineno,
                dag_id=dag_id,
                queue=self._readable_queue(trigger),
                parameter=parameter,
                reason=reason,
            )
        )


def _named_arguments(call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    for position, argument in enumerate(call.args):
        yield POSITIONAL[position] if position < len(POSITIONAL) else f"argument {position + 1}", argument
    for keyword in call.keywords:
        yield keyword.arg or "**", keyword.value


def _is_call_of(call: ast.Call, names: set[str]) -> bool:
    """Whether the called name is one of these, plain (`dag(...)`) or as an attribute (`decorators.dag(...)`)."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in names
    return False


def _spellings(found: Iterable[ast.stmt]) -> _Names:
    """The names after `import ... as`."""
    names = _Names()
    targets = {TRIGGER: names.trigger, "dag": names.decorator, "DAG": names.constructor}
    for node in found:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.asname and alias.name in targets:
                    targets[alias.name].add(alias.asname)
    return names


def _lines_with(names: Iterable[str], text: str) -> list[int]:
    """Lines that mention a name, numbered as the parser numbers them."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    wanted = tuple(names)
    return [number for number, line in enumerate(lines, 1) if any(name in line for name in wanted)]
