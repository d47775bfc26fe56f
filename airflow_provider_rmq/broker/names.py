"""Names of queues, exchanges and routing keys: refused before the wire where no broker can take them.

pika raises a bare assertion for the length, and waits for ever for the answer to a declare whose name holds a line
end, because the broker strips it and answers for another name (seen with pika 1.4 on RabbitMQ 3.10).
"""

from __future__ import annotations

from airflow_provider_rmq.errors import ConfigurationError

#: Bytes of UTF-8; AMQP's short string.
MAX_NAME_BYTES = 255


def check_name(parameter: str, name: object, *, may_be_empty: bool = False) -> str:
    """The name itself.

    Raises:
        ConfigurationError: It is no text, empty, too long, or holds a line end.
    """
    if not isinstance(name, str) or (not name and not may_be_empty):
        raise ConfigurationError(f"{parameter} must be a {'' if may_be_empty else 'non-empty '}str, not {name!r}")
    length = len(name.encode("utf-8", errors="replace"))
    if length > MAX_NAME_BYTES:
        raise ConfigurationError(
            f"{parameter} is {length} bytes of UTF-8, allowed are {MAX_NAME_BYTES}: {name[:60]!r}…"
        )
    if "\n" in name or "\r" in name:
        raise ConfigurationError(f"{parameter} holds a line end, which RabbitMQ takes out of names: {name!r}")
    return name
