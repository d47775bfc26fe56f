"""Free TCP ports for services that several labs start side by side."""

from __future__ import annotations

import random
import socket

# Below the range from which the kernel takes the local ports of outgoing connections: a port found free there
# could be taken by any client between looking and listening.
FIRST, LAST = 20000, 32000


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Say whether somebody could listen on *port* now."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Return *count* different ports nobody listens on."""
    found: list[int] = []
    for port in random.sample(range(FIRST, LAST), LAST - FIRST):
        # On every address: a listener on 0.0.0.0 takes the port on the loopback as well.
        if is_free(port, "0.0.0.0"):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"no {count} free ports between {FIRST} and {LAST}")


def free_port() -> int:
    """Return one port nobody listens on."""
    return free_ports(1)[0]
