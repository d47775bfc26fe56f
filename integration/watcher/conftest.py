"""What the watcher's tests share: a look at the broker through its management API."""

from __future__ import annotations

from dataclasses import dataclass
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
        path = f"{self.api}/api/queues/{quote(self.vhost, safe='')}/{quote(queue, safe='')}"
        answer = httpx.get(path, auth=self.login, params={"disable_stats": "false"}, timeout=10)
        answer.raise_for_status()
        return int(answer.json().get("messages", -1))

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
