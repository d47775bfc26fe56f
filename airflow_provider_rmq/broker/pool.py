"""AMQP connections of the watcher: per conn_id one for consuming and, when needed, one for publishing.

A broker under a resource alarm stops reading from connections that have published, acknowledgements included; the
consuming connection publishes nothing, so its acknowledgements go on. A lost connection is opened again, and so is one
that only looks open: it is handed out while its reader and writer are alive.

Plain connections on purpose, not aio-pika's robust ones: every consumer has its own loop that attaches again
(`consuming`), and two mechanisms that restore the same registration get in each other's way (see the ADR on it).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum

import aio_pika
from aio_pika.abc import AbstractConnection
from yarl import URL

from airflow_provider_rmq.broker.aio_connection import ReadingConnection
from airflow_provider_rmq.broker.deadlines import call_with_timeout
from airflow_provider_rmq.broker.settings import DEFAULT_CONNECT_TIMEOUT, ConnectionSettings
from airflow_provider_rmq.errors import BrokerError, ConnectionLost, describe

log = logging.getLogger(__name__)

#: Seconds one connection may take to close.
CLOSE_TIMEOUT = 5.0

SettingsLookup = Callable[[str], Awaitable[ConnectionSettings]]


class Role(str, Enum):
    """What a connection is for."""

    CONSUME = "consume"
    PUBLISH = "publish"


_Key = tuple[str, Role]


@dataclass(frozen=True, slots=True)
class PooledConnection:
    """An open AMQP connection and the settings it was opened with."""

    amqp: AbstractConnection
    settings: ConnectionSettings


@dataclass(slots=True)
class ConnectionPool:
    """Hands out one connection per conn_id and role; an unreachable broker delays only its own conn_id.

    However many consumers ask, the broker is asked for one attempt at a time: they wait for it side by side, each at
    most the connection's `connect_timeout`. An attempt that takes longer stays in flight for the next who asks.
    """

    lookup: SettingsLookup
    name: str
    _attempts: dict[_Key, asyncio.Task[PooledConnection]] = field(default_factory=dict)
    _waits: dict[str, float] = field(default_factory=dict)
    _failures: dict[_Key, str] = field(default_factory=dict)

    def current(self, conn_id: str, role: Role = Role.CONSUME) -> PooledConnection | None:
        """The open connection, None where there is none; opens nothing."""
        attempt = self._attempts.get((conn_id, role))
        return None if attempt is None or not attempt.done() or _is_spent(attempt) else attempt.result()

    def connect_failure(self, conn_id: str, role: Role = Role.CONSUME) -> str | None:
        """Why the last attempt to connect failed or still runs, None after one that succeeded."""
        return self._failures.get((conn_id, role))

    async def connection(self, conn_id: str, role: Role = Role.CONSUME) -> PooledConnection:
        """An open connection.

        Raises:
            ConnectionLost: There is none, with the reason; try again after a pause.
        """
        attempt = self._attempts.get((conn_id, role))
        if attempt is None or _is_spent(attempt):
            attempt = asyncio.create_task(self._connect(conn_id, role), name=f"connect {conn_id} {role.value}")
            attempt.add_done_callback(_retrieve)
            self._attempts[conn_id, role] = attempt
        wait = self._waits.get(conn_id, DEFAULT_CONNECT_TIMEOUT)
        done, _ = await asyncio.wait({attempt}, timeout=wait)
        if not done:
            raise self._failed(conn_id, role, f"within {wait:g} s; the attempt goes on")
        try:
            connection = attempt.result()
        except asyncio.CancelledError as error:  # closed or replaced while it ran; the caller itself goes on
            raise self._failed(conn_id, role, "the attempt was given up") from error
        except BrokerError as error:
            raise self._failed(conn_id, role, str(error)) from error
        except (OSError, RuntimeError, ValueError, asyncio.TimeoutError, aio_pika.exceptions.AMQPError) as error:
            raise self._failed(conn_id, role, describe(error)) from error
        self._failures.pop((conn_id, role), None)
        return connection

    def _failed(self, conn_id: str, role: Role, reason: str) -> ConnectionLost:
        joint = " " if reason.startswith("within") else ": "
        text = self._failures[conn_id, role] = f"no connection to the broker of {conn_id}{joint}{reason}"
        return ConnectionLost(text)

    async def recreate(self, conn_id: str, role: Role) -> None:
        """Close a connection that has stopped answering; the next who asks gets a new one.

        An attempt that still runs is left in flight: a broker under an alarm answers it when the alarm is over.
        """
        attempt = self._attempts.get((conn_id, role))
        if attempt is None or not attempt.done():
            return
        del self._attempts[conn_id, role]
        log.warning("the %s connection of %s does not answer and is opened again", role.value, conn_id)
        await asyncio.gather(_close(attempt), return_exceptions=True)

    async def _connect(self, conn_id: str, role: Role) -> PooledConnection:
        try:
            settings = await self.lookup(conn_id)
        except Exception as error:  # a secrets backend or the metadata database may raise anything
            raise ConnectionLost(f"Airflow connection {conn_id} cannot be read: {describe(error)}") from error
        self._waits[conn_id] = settings.connect_timeout * len(settings.endpoints)
        ssl_context = await asyncio.to_thread(settings.ssl_context)  # reads the certificate files
        failures: list[str] = []
        for endpoint in settings.endpoints:
            try:
                amqp = await aio_pika.connect(
                    URL(settings.url(endpoint)).update_query(name=f"{self.name} {conn_id} {role.value}"),
                    timeout=settings.connect_timeout,
                    ssl_context=ssl_context,
                    connection_class=ReadingConnection,
                )
            except (OSError, asyncio.TimeoutError, aio_pika.exceptions.AMQPError) as error:
                failures.append(f"{endpoint.host}:{endpoint.port}: {describe(error)}")
                continue
            log.info("connected to the broker of %s at %s:%d (%s)", conn_id, endpoint.host, endpoint.port, role.value)
            return PooledConnection(amqp, settings)
        raise ConnectionLost("; ".join(failures))

    async def close(self) -> None:
        """Close every connection; one that does not answer is left to the end of the process."""
        attempts, self._attempts = self._attempts, {}
        await asyncio.gather(*(_close(attempt) for attempt in attempts.values()), return_exceptions=True)


def _is_spent(attempt: asyncio.Task[PooledConnection]) -> bool:
    """Whether this attempt can give nobody a usable connection any more."""
    if not attempt.done():
        return False
    return attempt.cancelled() or attempt.exception() is not None or not is_usable(attempt.result().amqp)


def is_usable(amqp: AbstractConnection) -> bool:
    """Whether calls can be made on it: it has not been closed, and its reader and its writer are alive.

    A plain connection that was lost goes on saying that it is not closed (seen on aio-pika 9.6).
    """
    return not amqp.is_closed and amqp.transport is not None and bool(amqp.transport.connection.is_opened)


def _retrieve(attempt: asyncio.Task[PooledConnection]) -> None:
    """An attempt that failed after everybody stopped waiting is asked for again; its error is no news."""
    if not attempt.cancelled():
        attempt.exception()


async def _close(attempt: asyncio.Task[PooledConnection]) -> None:
    if not attempt.done():
        attempt.cancel()
        return
    if not _is_spent(attempt):
        await call_with_timeout(attempt.result().amqp.close(), CLOSE_TIMEOUT)
