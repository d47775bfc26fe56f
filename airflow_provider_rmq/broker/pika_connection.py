"""Opening pika connections: parameters from the settings, deliveries read with our header codec.

The one place that reaches into pika: `BlockingConnection` takes its implementation class as an argument meant for
tests, and `_read_frame` is where a frame becomes an object (pika 1.3 and 1.4). A header that pika cannot decode kills
the connection before any callback runs, so nothing after that point could help.
"""

from __future__ import annotations

import struct
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingConnection

from airflow_provider_rmq.broker.properties import Properties
from airflow_provider_rmq.broker.settings import ConnectionSettings, Endpoint

_FRAME_HEADER = struct.Struct(">BHL")
_CONTENT_HEADER = struct.Struct(">HHQ")


class PikaConnection(pika.SelectConnection):
    """pika's connection, reading content headers with `Properties`."""

    def _read_frame(self) -> tuple[int, Any]:
        buffer: bytes = self._frame_buffer
        if len(buffer) < _FRAME_HEADER.size or buffer[0] != pika.spec.FRAME_HEADER:
            return super()._read_frame()  # type: ignore[no-any-return]
        _, channel_number, size = _FRAME_HEADER.unpack_from(buffer)
        end = _FRAME_HEADER.size + size
        if len(buffer) <= end or buffer[end] != pika.spec.FRAME_END:
            return super()._read_frame()  # type: ignore[no-any-return]
        _, _, body_size = _CONTENT_HEADER.unpack_from(buffer, _FRAME_HEADER.size)
        properties = Properties().decode(buffer[_FRAME_HEADER.size + _CONTENT_HEADER.size : end])
        return end + 1, pika.frame.Header(channel_number, body_size, properties)


def open_connection(settings: ConnectionSettings, endpoint: Endpoint) -> BlockingConnection:
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
    return BlockingConnection(parameters, _impl_class=PikaConnection)
