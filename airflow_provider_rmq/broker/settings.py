"""`ConnectionSettings`: the one reading of an Airflow connection, for pika, aio-pika and the management API alike.

TLS files are `broker.tls`'s part; opening connections is `broker.blocking`'s and `broker.pool`'s.
"""

from __future__ import annotations

import logging
import math
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from airflow_provider_rmq.broker.tls import TLS_KEYS, build_ssl_context, is_tls_enabled, tls_options
from airflow_provider_rmq.compat import ConnectionRecord, connection_record
from airflow_provider_rmq.errors import ConfigurationError

logger = logging.getLogger(__name__)

#: TCP port of AMQP.
AMQP_PORT = 5672
#: TCP port of AMQP over TLS.
AMQPS_PORT = 5671
#: Seconds between heartbeat frames on connections that live for days.
DEFAULT_HEARTBEAT = 30
#: Seconds between heartbeat frames in a task, whose code between two calls may take minutes.
DEFAULT_BLOCKING_HEARTBEAT = 600
#: Seconds for establishing a connection.
DEFAULT_CONNECT_TIMEOUT = 15.0
#: Seconds for one AMQP call.
DEFAULT_RPC_TIMEOUT = 30.0
#: Seconds a task waits while the broker blocks publishers because of a resource alarm.
DEFAULT_BLOCKED_TIMEOUT = 300.0

#: Keys of the extra that something in this package reads.
KNOWN_EXTRAS = TLS_KEYS | {
    "ssl_enabled",
    "ssl_options",
    "heartbeat",
    "blocked_connection_timeout",
    "connect_timeout",
    "rpc_timeout",
    "management_url",
}

_HIGHEST_PORT = 65535
#: `%2F` written for a slash, as URLs need it; `%252F` is the way to a vhost really named `%2f`.
_WRITTEN_SLASH = re.compile("%(25)?(2f)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of the broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class AMQPTimeouts:
    """Seconds for establishing a connection and for one AMQP call."""

    connect: float
    rpc: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """How to reach one vhost of one broker; the password shows in no repr.

    `heartbeat` is for connections that live for days, `blocking_heartbeat` for those of a task. `has_credentials` is
    false where login or password are RabbitMQ's default because the connection leaves them out.
    """

    conn_id: str
    endpoints: tuple[Endpoint, ...]
    login: str
    password: str = field(repr=False)
    vhost: str
    heartbeat: int
    connect_timeout: float
    rpc_timeout: float
    management_url: str | None
    blocking_heartbeat: int = DEFAULT_BLOCKING_HEARTBEAT
    blocked_connection_timeout: float = DEFAULT_BLOCKED_TIMEOUT
    has_credentials: bool = True
    is_tls: bool = False
    tls: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_record(cls, record: ConnectionRecord, *, vhost: str | None = None) -> ConnectionSettings:
        """Read an Airflow connection; what it leaves out gets RabbitMQ's defaults.

        Args:
            record: The connection.
            vhost: Instead of the connection's schema.

        Raises:
            ConfigurationError: Host, vhost or TLS options cannot be read.
        """
        extra = _Extra(record.conn_id, record.extra)
        extra.report_unknown()
        is_tls = is_tls_enabled(record.extra)
        default_port = record.port or (AMQPS_PORT if is_tls else AMQP_PORT)
        return cls(
            conn_id=record.conn_id,
            endpoints=parse_endpoints(record.host, default_port),
            login=record.login or "guest",
            password=record.password or "guest",
            vhost=parse_vhost(record.schema if vhost is None else vhost),
            heartbeat=extra.heartbeat(DEFAULT_HEARTBEAT),
            connect_timeout=extra.seconds("connect_timeout", DEFAULT_CONNECT_TIMEOUT),
            rpc_timeout=extra.seconds("rpc_timeout", DEFAULT_RPC_TIMEOUT),
            management_url=extra.url("management_url"),
            blocking_heartbeat=extra.heartbeat(DEFAULT_BLOCKING_HEARTBEAT, quiet=True),
            blocked_connection_timeout=extra.seconds("blocked_connection_timeout", DEFAULT_BLOCKED_TIMEOUT),
            has_credentials=bool(record.login and record.password),
            is_tls=is_tls,
            tls=tls_options(record.extra) if is_tls else {},
        )

    def url(self, endpoint: Endpoint) -> str:
        """The AMQP URL of one endpoint, with login and password: never for a log."""
        scheme = "amqps" if self.is_tls else "amqp"
        user = f"{quote(self.login, safe='')}:{quote(self.password, safe='')}"
        vhost = quote(self.vhost, safe="")
        return f"{scheme}://{user}@{endpoint}/{vhost}?heartbeat={self.heartbeat}"

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS context, None for a plain connection. Reads the certificate files, so it blocks."""
        return build_ssl_context({"ssl_enabled": True, **self.tls}) if self.is_tls else None


def parse_endpoints(host: str | None, default_port: int) -> tuple[Endpoint, ...]:
    """The addresses in `host1,host2:5673,[::1]:5672`, in this order; an empty field is `localhost`.

    Raises:
        ConfigurationError: An address cannot be read.
    """
    written = [part.strip() for part in (host or "").split(",")]
    return tuple(_endpoint(part, default_port) for part in written if part) or (Endpoint("localhost", default_port),)


def _endpoint(text: str, default_port: int) -> Endpoint:
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise ConfigurationError(f"host {text!r} is no IPv6 address; write [::1] or [::1]:5672")
        port = port[1:]
    elif text.count(":") > 1:  # an IPv6 address without brackets has no place for a port
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    if not host or "/" in host or "@" in host:
        raise ConfigurationError(
            f"host {text!r} is no host name; write host, host:port, or several with commas between"
        )
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) <= _HIGHEST_PORT):
        raise ConfigurationError(f"host {text!r} has port {port!r}, allowed are 1 to {_HIGHEST_PORT}")
    return Endpoint(host, int(port) if port else default_port)


def parse_vhost(schema: str | None) -> str:
    """The vhost that a schema field means: empty is `/`, `%2F` is a slash, everything else is the name itself.

    Raises:
        ConfigurationError: The name holds `%2F` with a capital F, which aio-pika cannot address (seen on aiormq 6.9).
    """
    name = _WRITTEN_SLASH.sub(lambda found: f"%{found[2]}" if found[1] else "/", schema or "/")
    if "%2F" in name:
        raise ConfigurationError(f"vhost {schema!r} stands for the name {name!r}, which aio-pika reads as a slash")
    return name


def build_amqp_connection(conn: Any, vhost_override: str | None = None) -> tuple[str, ssl.SSLContext | None]:
    """URL of the first endpoint and TLS context of an Airflow `Connection`. The URL holds the password."""
    settings = ConnectionSettings.from_record(connection_record(conn), vhost=vhost_override)
    return settings.url(settings.endpoints[0]), settings.ssl_context()


def get_amqp_timeouts(conn: Any) -> AMQPTimeouts:
    """The timeouts of an Airflow `Connection`."""
    record = connection_record(conn)
    extra = _Extra(record.conn_id, record.extra)
    return AMQPTimeouts(
        connect=extra.seconds("connect_timeout", DEFAULT_CONNECT_TIMEOUT),
        rpc=extra.seconds("rpc_timeout", DEFAULT_RPC_TIMEOUT),
    )


@dataclass(frozen=True, slots=True)
class _Extra:
    """The extra of one connection; a bad value is replaced by the default and named in a WARNING."""

    conn_id: str
    values: Mapping[str, Any]

    def report_unknown(self) -> None:
        for key in sorted(str(key) for key in self.values if key not in KNOWN_EXTRAS):
            _report_unknown(self.conn_id, key)

    def seconds(self, key: str, default: float) -> float:
        if key not in self.values:
            return default
        value = _number(self.values[key])
        if value is None or value <= 0:
            self._replaced(key, "a number above 0", default)
            return default
        return value

    def heartbeat(self, default: int, *, quiet: bool = False) -> int:
        """Whole seconds; 0 switches heartbeats off. `quiet` where another call has warned already."""
        if "heartbeat" not in self.values:
            return default
        value = _number(self.values["heartbeat"])
        if value is None or value < 0 or 0 < value < 1:
            if not quiet:
                self._replaced("heartbeat", "0, or a number of at least 1", default)
            return default
        if value == 0 and not quiet:
            logger.warning("Connection %s: heartbeat is 0, so a link that dies silently stays undetected", self.conn_id)
        return int(value)

    def url(self, key: str) -> str | None:
        value = self.values.get(key)
        return value.rstrip("/") or None if isinstance(value, str) else None

    def _replaced(self, key: str, allowed: str, default: float) -> None:
        logger.warning(
            "Connection %s: %s is %r, allowed is %s; the default %g is used",
            self.conn_id,
            key,
            self.values[key],
            allowed,
            default,
        )


@lru_cache(maxsize=4096)
def _report_unknown(conn_id: str, key: str) -> None:
    """The cache is what makes it one line a process."""
    logger.warning(
        "Connection %s: extra %r is not known and has no effect; known are %s",
        conn_id,
        key,
        ", ".join(sorted(KNOWN_EXTRAS)),
    )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
