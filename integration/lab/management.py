"""The management API of a running broker: administration and questions, with the standard library only.

`broker_lab` hands it out; the tests and the demo use it to make virtual hosts and users.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from integration.lab.processes import LabError

EVERYTHING = ".*"


def quote(name: str) -> str:
    """Return *name* as one segment of a path."""
    return urllib.parse.quote(name, safe="")


class Management:
    """One broker's management API, as one user."""

    def __init__(self, url: str, user: str, password: str, *, timeout: float = 10) -> None:
        self._url = url.rstrip("/")
        self._user = user
        self._login = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self._timeout = timeout
        # A proxy of the machine has no business between a test and its own broker.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Call the API and return its answer.

        Raises:
            LabError: the API refused; OSError when nobody answers.
        """
        request = urllib.request.Request(f"{self._url}/api/{path}", method=method)
        request.add_header("Authorization", self._login)
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, data=data, timeout=self._timeout) as response:
                text = response.read()
        except urllib.error.HTTPError as error:
            words = error.read().decode(errors="replace")[:300]
            raise LabError(f"{method} {path}: HTTP {error.code} {words}") from error
        return json.loads(text) if text else None

    def get(self, path: str) -> Any:
        """Read something."""
        return self.request("GET", path)

    def is_healthy(self, amqp_port: int) -> bool:
        """Say whether the node runs, its virtual hosts are up and the AMQP port listens."""
        try:
            if not self.get("nodes")[0].get("running"):
                return False
            self.get("health/checks/virtual-hosts")
            self.get(f"health/checks/port-listener/{amqp_port}")
            self.get("whoami")
        except (OSError, LabError, ValueError):
            return False
        return True

    def create_vhost(self, name: str, *, default_queue_type: str | None = None) -> None:
        """Make a virtual host on which this user may do everything."""
        # 3.10 knows the key without underscores, 4.0 the other one.
        keys = ("default_queue_type", "defaultqueuetype")
        body = dict.fromkeys(keys, default_queue_type) if default_queue_type else {}
        self.request("PUT", f"vhosts/{quote(name)}", body)
        self.grant(self._user, name)

    def delete_vhost(self, name: str) -> None:
        """Remove a virtual host with everything in it."""
        self.request("DELETE", f"vhosts/{quote(name)}")

    def create_user(self, name: str, password: str, *, tags: str = "") -> None:
        """Make a user (tags: "management", "administrator", ...), without any permission."""
        self.request("PUT", f"users/{quote(name)}", {"password": password, "tags": tags})

    def delete_user(self, name: str) -> None:
        """Remove a user."""
        self.request("DELETE", f"users/{quote(name)}")

    def grant(
        self, user: str, vhost: str, *, configure: str = EVERYTHING, write: str = EVERYTHING, read: str = EVERYTHING
    ) -> None:
        """Give a user permissions on a virtual host, as regular expressions over names."""
        body = {"configure": configure, "write": write, "read": read}
        self.request("PUT", f"permissions/{quote(vhost)}/{quote(user)}", body)
