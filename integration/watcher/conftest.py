"""What the watcher's tests share: a look at the broker through its management API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import httpx
import pytest


@dataclass(frozen=True)
class ManagementView:
    """The queues of the test's vhost as the broker's management API shows them."""

    api: str
    vhost: str
    login: tuple[str, str]

    def messages(self, queue: str) -> int:
        """Count ready and unacknowledged messages; the broker's statistics are a moment old."""
        return int(self._get("queues", queue).get("messages", -1))

    def acknowledged(self, queue: str) -> int:
        """Count the acknowledgements of a queue so far."""
        return int(self._get("queues", queue).get("message_stats", {}).get("ack", 0))

    def queue(self, name: str) -> tuple[bool, bool, bool, str, dict[str, Any]]:
        """Durable, auto-delete, exclusive, type and arguments of a queue."""
        found = self._get("queues", name)
        return found["durable"], found["auto_delete"], found["exclusive"], found["type"], found["arguments"]

    def exchange(self, name: str) -> tuple[bool, bool, bool, str, dict[str, Any]]:
        """Durable, auto-delete, internal, type and arguments of an exchange."""
        found = self._get("exchanges", name)
        return found["durable"], found["auto_delete"], found["internal"], found["type"], found["arguments"]

    def bindings(self, queue: str) -> set[tuple[str, str]]:
        """Exchange and routing key of each binding without arguments; the default exchange's is left out."""
        return {
            (item["source"], item["routing_key"])
            for item in self._get("queues", queue, "bindings")
            if item["source"] and not item["arguments"]
        }

    def exists(self, queue: str) -> bool:
        """Whether there is such a queue."""
        return self._ask("queues", queue).status_code == httpx.codes.OK

    def _get(self, *path: str) -> Any:
        answer = self._ask(*path)
        answer.raise_for_status()
        return answer.json()

    def _ask(self, kind: str, *path: str) -> httpx.Response:
        words = [quote(word, safe="") for word in (kind, self.vhost, *path)]
        return httpx.get(f"{self.api}/api/{'/'.join(words)}", auth=self.login, timeout=10)

    def take(self, queue: str) -> int:
        """Take a message off the head of a queue, as `rabbitmqadmin get ackmode=ack_requeue_false` does; how many."""
        path = f"{self.api}/api/queues/{quote(self.vhost, safe='')}/{quote(queue, safe='')}/get"
        wanted = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
        answer = httpx.post(path, auth=self.login, json=wanted, timeout=10)
        answer.raise_for_status()
        return len(answer.json())


@pytest.fixture(scope="session")
def management(broker_url: str, management_url: str) -> ManagementView:
    """The management API of the test's broker."""
    parts = urlsplit(broker_url)
    login = (unquote(parts.username or ""), unquote(parts.password or ""))
    return ManagementView(management_url.rstrip("/"), unquote(parts.path.removeprefix("/")), login)
