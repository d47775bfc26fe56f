r"""How a value of an AMQP header table becomes JSON; `message` uses it for XCom and for a DAG run's conf.

Airflow stores conf and XCom but prints them as JSON on its pages and in its REST API, so a value JSON cannot hold
breaks the page of a whole DAG (seen on Airflow 2.11.2). The rules, lossless and the same for every consumer:

| AMQP value | JSON |
|---|---|
| text, boolean, integer, None | itself; a NUL in text becomes the six characters `\u0000` |
| float | itself; NaN and the infinities as the texts `NaN`, `Infinity`, `-Infinity` |
| decimal | text, as `3.14` |
| timestamp | text, ISO 8601 in UTC |
| bytes | `{"base64": "<text>"}` |
| array, table | list, object with text keys |
| anything else | its `str()` |
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any


def json_value(value: Any) -> Any:
    """The JSON form of one header value; never raises on what a client library can deliver."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else _non_finite(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"base64": base64.b64encode(bytes(value)).decode("ascii")}
    if isinstance(value, datetime):
        return _utc_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return json_object(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_value(item) for item in value]
    if isinstance(value, Decimal):
        return str(value)
    return storable_text(str(value))


def json_object(table: Mapping[Any, Any]) -> dict[str, Any]:
    """A header table as a JSON object; keys become text."""
    return {_key(key): json_value(value) for key, value in table.items()}


def storable_text(text: str) -> str:
    r"""Text that every database can hold: a lone surrogate becomes a question mark, NUL the six characters `\u0000`.

    PostgreSQL refuses NUL in text and in JSONB, which Airflow 3 keeps conf and XCom in.
    """
    return text.encode("utf-8", errors="replace").decode("utf-8").replace("\x00", "\\u0000")


def _key(key: Any) -> str:
    if isinstance(key, (bytes, bytearray)):
        return storable_text(bytes(key).decode("utf-8", errors="replace"))
    return storable_text(str(key))


def _non_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _utc_text(moment: datetime) -> str:
    """AMQP timestamps carry no zone and are UTC by definition of the protocol (AMQP 0-9-1, section 4.2.5.4)."""
    aware = moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment
    return aware.astimezone(timezone.utc).isoformat()
