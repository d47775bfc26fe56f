"""Publishing headers byte by byte, as no client library would write them."""

import struct

import pika

from integration.vhost import Vhost


class RawHeaders(pika.BasicProperties):
    """Properties with nothing but a header table, given as its packed fields."""

    def __init__(self, fields: bytes) -> None:
        super().__init__()
        self._fields = fields

    def encode(self) -> list[bytes]:
        return [struct.pack(">H", self.FLAG_HEADERS), struct.pack(">I", len(self._fields)), self._fields]


def field(name: str, code: bytes, value: bytes) -> bytes:
    """One entry of a header table."""
    key = name.encode()
    return struct.pack(">B", len(key)) + key + code + value


def publish_raw(vhost: Vhost, queue: str, fields: bytes, body: bytes = b"body") -> None:
    """Publish one message with these headers."""
    with vhost.channel() as channel:
        channel.basic_publish("", queue, body, RawHeaders(fields), mandatory=True)
