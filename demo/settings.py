"""The demo's settings, from environment variables; `make demo ONCE=1` sets one too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from demo.console import DemoError

FIRST_PORT = 8080
HIGHEST_PORT = 65535


@dataclass(frozen=True)
class Settings:
    """What the caller asked for."""

    once: bool = False
    rmq_url: str | None = field(default=None, repr=False)  # holds a password
    management_url: str | None = None
    port: int | None = None  # of the web page; None: 8080 or the next free one

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Settings:
        """Read the variables.

        Raises:
            DemoError: a value that cannot be meant.
        """
        given = {key: value.strip() for key, value in environment.items() if value.strip()}
        url = given.get("RMQ_URL")
        # The value stays out of the message: it may hold a password.
        if url and not (urlsplit(url).scheme == "amqp" and urlsplit(url).hostname):
            raise DemoError("RMQ_URL must look like amqp://user:password@host:5672/vhost")
        return cls(
            once=given.get("ONCE", "0").lower() not in ("0", "no", "false"),
            rmq_url=url,
            management_url=given.get("RMQ_MANAGEMENT_URL"),
            port=_port(given["DEMO_PORT"]) if "DEMO_PORT" in given else None,
        )


def _port(text: str) -> int:
    if text.isdecimal() and 0 < int(text) <= HIGHEST_PORT:
        return int(text)
    raise DemoError(f"DEMO_PORT must be a port between 1 and {HIGHEST_PORT}, not {text!r}")
