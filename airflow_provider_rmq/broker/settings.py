"""`ConnectionSettings`: the one reading of an Airflow connection, for pika, aio-pika and the management API alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from airflow_provider_rmq.compat import ConnectionRecord

#: TCP port of AMQP.
AMQP_PORT = 5672
#: TCP port of AMQP over TLS.
AMQPS_PORT = 5671
#: Seconds between heartbeat frames on connections that live for days.
DEFAULT_HEARTBEAT = 30
#: Seconds for establishing a connection.
DEFAULT_CONNECT_TIMEOUT = 15.0
#: Seconds for one AMQP call.
DEFAULT_RPC_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of the broker."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """How to reach one vhost of one broker; the password shows in no repr."""

    conn_id: str
    endpoints: tuple[Endpoint, ...]
    login: str
    password: str = field(repr=False)
    vhost: str
    heartbeat: int
    connect_timeout: float
    rpc_timeout: float
    management_url: str | None

    @classmethod
    def from_record(cls, record: ConnectionRecord) -> ConnectionSettings:
        """Read an Airflow connection; what it leaves out gets RabbitMQ's defaults."""
        port = record.port or AMQP_PORT
        return cls(
            conn_id=record.conn_id,
            endpoints=(Endpoint(record.host or "localhost", port),),
            login=record.login or "guest",
            password=record.password or "guest",
            vhost=record.schema or "/",
            heartbeat=int(_positive(record.extra, "heartbeat", DEFAULT_HEARTBEAT)),
            connect_timeout=_positive(record.extra, "connect_timeout", DEFAULT_CONNECT_TIMEOUT),
            rpc_timeout=_positive(record.extra, "rpc_timeout", DEFAULT_RPC_TIMEOUT),
            management_url=_text(record.extra, "management_url"),
        )

    def url(self, endpoint: Endpoint) -> str:
        """The AMQP URL of one endpoint, with login and password: never for a log."""
        user = f"{quote(self.login, safe='')}:{quote(self.password, safe='')}"
        vhost = quote(self.vhost, safe="")
        return f"amqp://{user}@{endpoint.host}:{endpoint.port}/{vhost}?heartbeat={self.heartbeat}"


def _positive(extra: Mapping[str, Any], key: str, default: float) -> float:
    try:
        value = float(extra.get(key, default))
    except (TypeError, ValueError):
        return default
    return value if math.isfinite(value) and value > 0 else default


def _text(extra: Mapping[str, Any], key: str) -> str | None:
    value = extra.get(key)
    return value.rstrip("/") or None if isinstance(value, str) else None
