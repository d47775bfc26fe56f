"""The AMQP frames of many publishes as one piece of bytes.

pika builds three frames and makes three system calls for each message; what is equal in all messages of a batch is
built once here, and the socket gets them together.
"""

from __future__ import annotations

import struct

import pika

from airflow_provider_rmq.broker.properties import Properties

_FRAME = struct.Struct(">BHI")
_HEADER = struct.Struct(">HHQ")
_END = bytes([pika.spec.FRAME_END])
#: Bytes a frame needs around its payload.
FRAME_OVERHEAD = _FRAME.size + len(_END)


class PublishFrames:
    """Builds the frames of messages with the same exchange, routing key and properties, on one channel."""

    def __init__(
        self,
        channel_number: int,
        frame_max: int,
        *,
        exchange: str,
        routing_key: str,
        mandatory: bool,
        properties: Properties,
    ) -> None:
        method = pika.spec.Basic.Publish(exchange=exchange, routing_key=routing_key, mandatory=mandatory)
        self._channel_number = channel_number
        self._max_payload = frame_max - FRAME_OVERHEAD
        self._method_frame: bytes = pika.frame.Method(channel_number, method).marshal()
        self._properties = b"".join(properties.encode())

    def of(self, body: bytes) -> bytes:
        """Method, content header, and as many body frames as it takes."""
        header = _HEADER.pack(pika.spec.BasicProperties.INDEX, 0, len(body)) + self._properties
        frames = [self._method_frame, self._frame(pika.spec.FRAME_HEADER, header)]
        frames.extend(
            self._frame(pika.spec.FRAME_BODY, body[start : start + self._max_payload])
            for start in range(0, len(body), self._max_payload)
        )
        return b"".join(frames)

    def _frame(self, kind: int, payload: bytes) -> bytes:
        return _FRAME.pack(kind, self._channel_number, len(payload)) + payload + _END
