"""What a broker lab was asked for and what it is now, kept in one file between two calls.

Data only. `broker_lab` changes it, `node_files` and `surroundings` read it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from integration.lab.installs import Install
from integration.lab.processes import ProcessId

ADMIN = "guest"  # made by the node itself; all listeners are bound to 127.0.0.1


@dataclass(frozen=True)
class LabSettings:
    """What shapes a lab. Ports left out are chosen among the free ones; given ones count up from node to node."""

    names: tuple[str, ...] = ("n1",)
    cluster: bool = False
    series: str | None = None  # None: what this machine has or its release offers
    private: bool = False  # a private root even where the machine has the series
    tls: bool = False
    plugins: tuple[str, ...] = ("rabbitmq_management",)
    settings: tuple[str, ...] = ()  # lines of rabbitmq.conf: "consumer_timeout=10000"
    env: tuple[str, ...] = ()  # what that file has no name for: "rabbit.channel_tick_interval=1000"
    amqp: int | None = None
    management: int | None = None
    distribution: int | None = None
    amqps: int | None = None
    epmd: int | None = None


@dataclass
class Node:
    """One node: its ports and, while it runs, its processes."""

    name: str
    amqp: int
    management: int
    distribution: int
    amqps: int | None = None
    beam: ProcessId | None = None
    wrapper: ProcessId | None = None
    paused: bool = False

    @property
    def erlang_name(self) -> str:
        """The name the broker itself uses."""
        return f"{self.name}@localhost"

    @property
    def running(self) -> bool:
        """Whether its Erlang machine runs, frozen or not."""
        return self.beam is not None and self.beam.alive


@dataclass
class LabState:
    """Everything about one lab that outlives a call."""

    settings: LabSettings
    home: str
    root: str | None
    mounts: bool  # whether a private root gets its own mounts; always False on the host
    view: str  # where the state directory appears inside a private root
    epmd_port: int
    nodes: dict[str, Node] = field(default_factory=dict)
    epmd: ProcessId | None = None

    @property
    def install(self) -> Install:
        """The RabbitMQ this lab runs."""
        return Install(Path(self.home), Path(self.root) if self.root else None)

    def save(self, file: Path) -> None:
        """Write the state so that a reader sees the old or the new one, never half of it."""
        new = file.with_suffix(".tmp")
        new.write_text(json.dumps(asdict(self), indent=1))
        new.replace(file)

    @classmethod
    def load(cls, file: Path) -> LabState:
        """Read what `save` wrote."""
        raw: dict[str, Any] = json.loads(file.read_text())
        listed: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in raw["settings"].items()
        }
        nodes = {}
        for name, node in raw["nodes"].items():
            node["beam"] = ProcessId(**node["beam"]) if node["beam"] else None
            node["wrapper"] = ProcessId(**node["wrapper"]) if node["wrapper"] else None
            nodes[name] = Node(**node)
        epmd = ProcessId(**raw["epmd"]) if raw["epmd"] else None
        return cls(**{**raw, "settings": LabSettings(**listed), "nodes": nodes, "epmd": epmd})
