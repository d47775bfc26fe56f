"""`MessageFilter`: what a message must look like. What becomes of it afterwards is `settlement`'s part.

The rules of a condition, the same for the operators, the sensor, the trigger and the watcher:

- `{"x-type": "order"}` compares the header `x-type` by equality. A header that is absent equals `None`, so "present
  without a value" and "absent" are not told apart. Nested tables and arrays compare as a whole.
- `{"body.order.status": "paid"}` walks the objects of a JSON body by name; there are no list indexes. A step that is
  missing, or a body that is JSON but no object, is a MISS. A body that does not read as JSON is an ERROR.
- Numbers compare as Python does: `1 == 1.0`, and `1e999` is infinity, which equals nothing but itself.
- Headers are judged before the body is parsed, and a callable is asked only when both accepted the message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeAlias

from airflow_provider_rmq.errors import ConfigurationError, describe
from airflow_provider_rmq.messages.bodies import json_document, lenient_text
from airflow_provider_rmq.messages.import_paths import check_import_path, resolve_import_path
from airflow_provider_rmq.messages.message import Message
from airflow_provider_rmq.messages.settlement import FilterVerdict

__all__ = ["FilterCallable", "FilterVerdict", "MessageFilter"]

logger = logging.getLogger("airflow.task")

#: Receives the AMQP properties and the body as text.
FilterCallable: TypeAlias = Callable[[Any, str], bool]

_BODY_PREFIX = "body."
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Conditions on headers and body, and a callable; all that are given must accept.

    Args:
        filter_headers: Header names, or `body.` and a path into the JSON body, to the values they must have.
        filter_callable: `fn(properties, body_text) -> bool`, or its import path `"package.module:function"`, which is
            resolved when the first message arrives and, unlike a function, survives `serialize`.
    """

    filter_headers: Mapping[str, Any] | None = None
    filter_callable: FilterCallable | str | None = None
    _header_conditions: tuple[tuple[str, Any], ...] = field(init=False, repr=False, compare=False)
    _body_conditions: tuple[tuple[tuple[str, ...], Any], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        conditions = _checked_conditions(self.filter_headers)
        _check_callable(self.filter_callable)
        headers = tuple(item for item in conditions if not item[0].startswith(_BODY_PREFIX))
        body = tuple(
            (tuple(key.removeprefix(_BODY_PREFIX).split(".")), value)
            for key, value in conditions
            if key.startswith(_BODY_PREFIX)
        )
        object.__setattr__(self, "_header_conditions", headers)
        object.__setattr__(self, "_body_conditions", body)

    @property
    def has_filters(self) -> bool:
        """Whether any condition is given at all."""
        return self.filter_headers is not None or self.filter_callable is not None

    def matches(self, properties: Any, body: str | bytes) -> bool:
        """Whether the message is accepted; a filter that could not be evaluated accepts nothing."""
        return self.evaluate(properties, body)[0] is FilterVerdict.MATCH

    def evaluate(self, properties: Any, body: str | bytes) -> tuple[FilterVerdict, str | None]:
        """The verdict, and with ERROR the type and text of the exception behind it."""
        headers = getattr(properties, "headers", None) or {}
        return self._verdict(headers, body, getattr(properties, "content_encoding", None), properties)

    def evaluate_message(self, message: Message) -> tuple[FilterVerdict, str | None]:
        """`evaluate` for a `Message`; the callable gets its properties, or the message itself where it has none."""
        properties = message if message.properties is None else message.properties
        return self._verdict(message.headers, message.body, message.content_encoding, properties)

    def serialize(self) -> dict[str, Any]:
        """JSON-ready form for a trigger or a database row. Functions are dropped, import paths are kept."""
        data: dict[str, Any] = {"filter_headers": None if self.filter_headers is None else dict(self.filter_headers)}
        if isinstance(self.filter_callable, str):
            data["filter_callable"] = self.filter_callable
        return data

    @classmethod
    def deserialize(cls, data: Mapping[str, Any] | None) -> MessageFilter:
        """The filter of `serialize`'s form; a missing key means no such condition."""
        data = data or {}
        return cls(data.get("filter_headers"), data.get("filter_callable"))

    def _verdict(
        self, headers: Mapping[Any, Any], body: str | bytes, content_encoding: str | None, properties: Any
    ) -> tuple[FilterVerdict, str | None]:
        try:
            accepted = self._headers_accept(headers) and self._body_accepts(body, content_encoding)
            if accepted and self.filter_callable is not None:
                text = body if isinstance(body, str) else lenient_text(body, content_encoding)
                accepted = self._callable_accepts(self.filter_callable, properties, text)
        except Exception as error:  # whatever a callable or a foreign body raises is an ERROR
            logger.debug("filter could not be evaluated", exc_info=True)
            return FilterVerdict.ERROR, describe(error)
        return (FilterVerdict.MATCH if accepted else FilterVerdict.MISS), None

    def _headers_accept(self, headers: Mapping[Any, Any]) -> bool:
        return all(headers.get(name) == expected for name, expected in self._header_conditions)

    def _body_accepts(self, body: str | bytes, content_encoding: str | None) -> bool:
        if not self._body_conditions:
            return True
        document = json_document(body, content_encoding)
        return all(_at(document, path) == expected for path, expected in self._body_conditions)

    @staticmethod
    def _callable_accepts(accepts: FilterCallable | str, properties: Any, text: str) -> bool:
        function = resolve_import_path(accepts) if isinstance(accepts, str) else accepts
        answer = function(properties, text)
        if isawaitable(answer):
            if hasattr(answer, "close"):
                answer.close()
            raise TypeError("filter_callable returned an awaitable; it must return a bool")
        return bool(answer)


def _at(document: Any, path: tuple[str, ...]) -> Any:
    """The value at a path of object keys, or something that equals nothing."""
    value = document
    for step in path:
        if not isinstance(value, dict) or step not in value:
            return _ABSENT
        value = value[step]
    return value


def _checked_conditions(filter_headers: object) -> list[tuple[str, Any]]:
    if filter_headers is None:
        return []
    if not isinstance(filter_headers, Mapping):
        raise ConfigurationError(f"filter_headers must be a dict or None, not {filter_headers!r}")
    for key in filter_headers:
        if not isinstance(key, str):
            raise ConfigurationError(f"a key of filter_headers must be a str, not {key!r}")
    return list(filter_headers.items())


def _check_callable(accepts: object) -> None:
    if accepts is None:
        return
    if isinstance(accepts, str):
        check_import_path("filter_callable", accepts)
    elif not callable(accepts):
        raise ConfigurationError(
            f'filter_callable must be a function, its import path "package.module:function" or None, not {accepts!r}'
        )
    elif iscoroutinefunction(accepts):
        raise ConfigurationError(f"filter_callable must be a plain function, not the coroutine function {accepts!r}")
