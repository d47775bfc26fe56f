"""Opening pika connections: parameters from the settings, deliveries read with our header codec, waits bounded.

The one place that reaches into pika's connection (1.3 and 1.4): `BlockingConnection` takes its implementation class as
an argument meant for tests, `_read_frame` is where a frame becomes an object, and every wait for an answer goes through
`_flush_output`. A header that pika cannot decode kills the connection before any callback runs, so nothing after that
point could help.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingConnection

from airflow_provider_rmq.broker.properties import Properties
from airflow_provider_rmq.broker.settings import ConnectionSettings, Endpoint
from airflow_provider_rmq.broker.undecodable import readable_method

_FRAME_HEADER = struct.Struct(">BHL")
_CONTENT_HEADER = struct.Struct(">HHQ")


class PikaConnection(pika.SelectConnection):
    """pika's connection, reading content headers with `Properties` and names whatever their bytes."""

    _frame_buffer: bytes

    def _read_frame(self) -> tuple[int, Any]:
        buffer = self._frame_buffer
        if len(buffer) < _FRAME_HEADER.size:
            return super()._read_frame()  # type: ignore[no-any-return]
        kind, channel_number, size = _FRAME_HEADER.unpack_from(buffer)
        end = _FRAME_HEADER.size + size
        if len(buffer) <= end or buffer[end] != pika.spec.FRAME_END:
            return super()._read_frame()  # type: ignore[no-any-return]
        if kind == pika.spec.FRAME_HEADER:
            _, _, body_size = _CONTENT_HEADER.unpack_from(buffer, _FRAME_HEADER.size)
            properties = Properties().decode(buffer[_FRAME_HEADER.size + _CONTENT_HEADER.size : end])
            return end + 1, pika.frame.Header(channel_number, body_size, properties)
        if kind == pika.spec.FRAME_METHOD:
            payload = buffer[_FRAME_HEADER.size : end]
            readable = readable_method(payload)
            if readable is not payload:
                self._frame_buffer = _FRAME_HEADER.pack(kind, channel_number, len(readable)) + readable + buffer[end:]
        return super()._read_frame()  # type: ignore[no-any-return]

    def give_up_after(self, seconds: float) -> Any:
        """A timer that ends the connection unless it is removed: over a dead link no answer comes, and no error."""

        def give_up() -> None:
            if self._blocked_conn_timer is None:  # under a resource alarm `blocked_connection_timeout` is the bound
                error = pika.exceptions.StreamLostError(f"no answer within the rpc_timeout of {seconds:g} s")
                self._terminate_stream(error)

        return self._adapter_call_later(seconds, give_up)

    def forget_timer(self, timer: Any) -> None:
        """Remove it."""
        self._adapter_remove_timeout(timer)


class BoundedConnection(BlockingConnection):
    """pika's blocking connection, waiting at most `rpc_timeout` seconds for the answer to a call.

    pika bounds connecting and being blocked, nothing else: a call over a black-holed link would wait for two
    heartbeats, 20 minutes by default. Waiting for messages and for confirms is not a call and has its own bounds.
    """

    def __init__(self, parameters: pika.ConnectionParameters, rpc_timeout: float) -> None:
        self._rpc_timeout = rpc_timeout
        self._is_waiting_on_purpose = True  # connecting is bounded by the parameters
        super().__init__(parameters, _impl_class=PikaConnection)
        self._is_waiting_on_purpose = False

    def process_data_events(self, time_limit: float | None = 0) -> None:
        """Serve the connection for so long."""
        with self.waiting_on_purpose():
            super().process_data_events(time_limit)

    @contextmanager
    def waiting_on_purpose(self) -> Iterator[None]:
        """What waits in this block knows for how long."""
        before, self._is_waiting_on_purpose = self._is_waiting_on_purpose, True
        try:
            yield
        finally:
            self._is_waiting_on_purpose = before

    def _flush_output(self, *waiters: Callable[[], bool]) -> None:
        if self._is_waiting_on_purpose or not waiters:
            super()._flush_output(*waiters)
            return
        timer = self._impl.give_up_after(self._rpc_timeout)
        try:
            super()._flush_output(*waiters)
        finally:
            self._impl.forget_timer(timer)


def open_connection(settings: ConnectionSettings, endpoint: Endpoint) -> BoundedConnection:
    """Connect to one endpoint, once, within the connect timeout for each address of its name. Blocking.

    Raises:
        Exception: pika's own error, which `broker.refusals.explain_connection` puts into words.
    """
    context = settings.ssl_context()
    parameters = pika.ConnectionParameters(
        host=endpoint.host,
        port=endpoint.port,
        virtual_host=settings.vhost,
        credentials=pika.PlainCredentials(settings.login, settings.password, erase_on_connect=False),
        heartbeat=settings.blocking_heartbeat,
        blocked_connection_timeout=settings.blocked_connection_timeout,
        socket_timeout=settings.connect_timeout,
        stack_timeout=settings.connect_timeout,
        connection_attempts=1,
        ssl_options=None if context is None else pika.SSLOptions(context, endpoint.host),
        client_properties={"connection_name": f"airflow {settings.conn_id}"},
    )
    return BoundedConnection(parameters, settings.rpc_timeout)
