"""Questions to RabbitMQ's management API, with typed answers; AMQP itself cannot tell what is bound to a queue.

One short-lived client a question: bounded in time and size, no redirects (they would carry the login elsewhere), no
proxies or `.netrc` of the environment (AMQP goes to the same broker directly). Login and password appear in no error.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import httpx

from airflow_provider_rmq.broker.deadlines import call_with_timeout
from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.broker.topology import Binding
from airflow_provider_rmq.errors import BrokerError, ManagementUnavailable, describe

#: Bytes of an answer that are read; a queue with 50,000 bindings answers with about 10 MB.
MAX_ANSWER_BYTES = 32 * 1024 * 1024

#: A compressed answer has no bound worth the name.
_UNCOMPRESSED = {"Accept-Encoding": "identity"}

_ADVICE = {
    401: "the broker refuses the login; the user needs the tag management (rabbitmqctl set_user_tags)",
    403: "the user may not ask; it needs the tag management (rabbitmqctl set_user_tags)",
    404: "not found; management_url, vhost or queue is wrong",
}


class NoManagementUrl(BrokerError):
    """The Airflow connection names no management API."""


@dataclass(frozen=True, slots=True)
class ListedQueue:
    """A queue as the management API lists it; counts are None until the broker has gathered them, and seconds old."""

    name: str
    type: str
    messages: int | None = None
    consumers: int | None = None


@dataclass(frozen=True, slots=True)
class ManagementApi:
    """The management APIs behind Airflow connections."""

    settings: Callable[[str], Awaitable[ConnectionSettings]]

    async def queue_bindings(self, conn_id: str, queue_name: str) -> frozenset[Binding]:
        """Everything that is bound to a queue, the default exchange included.

        Raises:
            NoManagementUrl: The connection has none.
            ManagementUnavailable: There is no usable answer, and why.
        """
        settings = await self._settings(conn_id)
        vhost, queue = quote(settings.vhost, safe=""), quote(queue_name, safe="")
        answer = await _ask(settings, f"api/queues/{vhost}/{queue}/bindings")
        if not isinstance(answer, list):
            raise ManagementUnavailable(f"{conn_id}: the management API answered with no list of bindings")
        return frozenset(_binding(conn_id, item) for item in answer)

    async def queues(self, conn_id: str) -> tuple[ListedQueue, ...]:
        """All queues of the vhost, by name.

        Raises:
            NoManagementUrl: The connection has none.
            ManagementUnavailable: There is no usable answer, and why.
        """
        settings = await self._settings(conn_id)
        vhost = quote(settings.vhost, safe="")
        answer = await _ask(settings, f"api/queues/{vhost}?columns=name,type,messages,consumers")
        if not isinstance(answer, list):
            raise ManagementUnavailable(f"{conn_id}: the management API answered with no list of queues")
        return tuple(sorted((_queue(conn_id, item) for item in answer), key=lambda queue: queue.name))

    async def _settings(self, conn_id: str) -> ConnectionSettings:
        try:
            return await self.settings(conn_id)
        except Exception as error:  # a secrets backend or the metadata database may raise anything
            raise ManagementUnavailable(f"Airflow connection {conn_id} cannot be read: {describe(error)}") from error


async def describe_queue(settings: ConnectionSettings, queue_name: str) -> Mapping[str, Any]:
    """What the management API knows of a queue, as it says it.

    Raises:
        NoManagementUrl: The connection has none.
        ManagementUnavailable: There is no usable answer, and why.
    """
    answer = await _ask(settings, f"api/queues/{quote(settings.vhost, safe='')}/{quote(queue_name, safe='')}")
    if not isinstance(answer, Mapping):
        raise ManagementUnavailable(f"{settings.conn_id}: the management API answered with no description of a queue")
    return answer


async def broker_version(settings: ConnectionSettings) -> tuple[int, ...]:
    """RabbitMQ's version as numbers; empty where the answer has none.

    Raises:
        ManagementUnavailable: There is no usable answer, and why.
    """
    answer = await _ask(settings, "api/overview")
    written = answer.get("rabbitmq_version") if isinstance(answer, Mapping) else None
    return tuple(int(part) for part in str(written or "").split(".") if part.isdecimal())


async def list_with(client: httpx.AsyncClient, url: str, auth: Any) -> list[Any]:
    """The list at a URL of the management API, asked with the caller's own client.

    A login in the URL is left out: httpx logs each URL it asks, and `auth` has it.

    Raises:
        ManagementUnavailable: There is no usable answer, and why.
    """
    try:
        async with client.stream(
            "GET", _without_login(url), auth=auth, headers=_UNCOMPRESSED, follow_redirects=False
        ) as response:
            answer = json.loads(await _body(response))
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        raise ManagementUnavailable(f"{_without_login(url)}: {describe(error)}") from error
    if not isinstance(answer, list):
        raise ManagementUnavailable(f"{_without_login(url)}: the management API answered with no list")
    return answer


def _binding(conn_id: str, item: Any) -> Binding:
    match item:
        case {"source": str(exchange), "routing_key": str(key)}:
            arguments = item.get("arguments")
            return Binding(exchange, key, arguments if isinstance(arguments, Mapping) else {})
    raise ManagementUnavailable(f"{conn_id}: the management API listed something that is no binding")


async def management_answer(settings: ConnectionSettings, path: str) -> Any:
    """The parsed answer to one GET below `management_url`, for the questions of neighbouring modules.

    Raises:
        NoManagementUrl: The connection has none.
        ManagementUnavailable: There is no usable answer, and why.
    """
    return await _ask(settings, path)


def _queue(conn_id: str, item: Any) -> ListedQueue:
    match item:
        case {"name": str(name)}:
            counts = [count if isinstance(count := item.get(key), int) else None for key in ("messages", "consumers")]
            return ListedQueue(name, str(item.get("type", "classic")), *counts)
    raise ManagementUnavailable(f"{conn_id}: the management API listed something that is no queue")


async def _ask(settings: ConnectionSettings, path: str) -> Any:
    base = _base(settings)
    if not settings.has_credentials:
        raise ManagementUnavailable(
            f"Airflow connection {settings.conn_id} has no login and password; the management API is not asked as guest"
        )
    try:
        verify = await asyncio.to_thread(_verification, settings, base)
        raw = await call_with_timeout(_read(settings, f"{base}/{path}", verify), settings.rpc_timeout)
    except asyncio.TimeoutError as error:
        raise ManagementUnavailable(f"{base}: no answer within {settings.rpc_timeout:g} s") from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError, RuntimeError, ValueError) as error:
        raise ManagementUnavailable(f"{base}: {describe(error)}") from error
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ManagementUnavailable(f"{base}: the answer is no JSON; is this a management API?") from error


def _base(settings: ConnectionSettings) -> str:
    """The URL without a login in it, which would end up in log lines."""
    if settings.management_url is None:
        raise NoManagementUrl(f"the extra of Airflow connection {settings.conn_id} has no management_url")
    try:
        parts = urlsplit(settings.management_url)
    except ValueError:
        raise ManagementUnavailable(f"{settings.conn_id}: management_url is no URL") from None  # the error quotes it
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ManagementUnavailable(f"{settings.conn_id}: management_url must begin with http:// or https://")
    return _without_login(settings.management_url)


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


def _verification(settings: ConnectionSettings, base: str) -> ssl.SSLContext | bool:
    """How the certificate is checked: as the AMQP connection does where that has TLS. Reads files.

    Without TLS nothing is read: the certificate authorities of a machine take a tenth of a second each time.
    """
    if not base.startswith("https:"):
        return False
    return settings.ssl_context() or ssl.create_default_context()


async def _read(settings: ConnectionSettings, url: str, verify: ssl.SSLContext | bool) -> bytes:
    client = httpx.AsyncClient(
        auth=(settings.login, settings.password),
        headers=_UNCOMPRESSED,
        timeout=httpx.Timeout(settings.rpc_timeout, connect=settings.connect_timeout),
        follow_redirects=False,
        trust_env=False,
        verify=verify,
    )
    async with client, client.stream("GET", url) as response:
        return await _body(response)


async def _body(response: httpx.Response) -> bytes:
    if response.status_code != httpx.codes.OK:
        advice = _ADVICE.get(response.status_code, "redirects are not followed" if response.is_redirect else "")
        raise ManagementUnavailable(
            f"{_without_login(str(response.url))}: HTTP {response.status_code} {advice}".rstrip()
        )
    collected = bytearray()
    async for chunk in response.aiter_raw():
        collected += chunk
        if len(collected) > MAX_ANSWER_BYTES:
            raise ManagementUnavailable(f"{response.url.host}: the answer is longer than {MAX_ANSWER_BYTES} bytes")
    return bytes(collected)
