"""Troubles a broker makes through its own tools: resource alarms, closed connections.

Stopping, killing and freezing a node are verbs of `broker_lab`; broken network links are in `fault_proxy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from integration.lab.waiting import wait_until

if TYPE_CHECKING:
    from integration.lab.broker_lab import BrokerLab

Resource = Literal["memory", "disk"]

#: An impossible limit raises the alarm, the lab's usual one clears it.
LIMITS = {
    ("memory", True): ("set_vm_memory_high_watermark", "0.000001"),
    ("memory", False): ("set_vm_memory_high_watermark", "0.6"),
    ("disk", True): ("set_disk_free_limit", str(10**15)),
    ("disk", False): ("set_disk_free_limit", str(5 * 10**7)),
}
REPORTED_AS = {"memory": "mem_alarm", "disk": "disk_free_alarm"}


def set_alarm(lab: BrokerLab, resource: Resource, *, raised: bool = True, node: str | None = None) -> None:
    """Raise or clear a resource alarm; returns once the node reports the change (2 to 5 s)."""
    one = lab.node(node)
    lab.ctl(*LIMITS[resource, raised], node=one.name)
    key = REPORTED_AS[resource]

    def reported() -> bool:
        nodes = {found["name"]: found for found in lab.management(one.name).get("nodes")}
        return bool(nodes[one.erlang_name].get(key)) == raised

    wait_until(reported, 30, f"the {resource} alarm of {one.name} to be {'set' if raised else 'clear'}", interval=0.2)


def close_connections(
    lab: BrokerLab, *, vhost: str | None = None, node: str | None = None, reason: str = "closed by the lab"
) -> None:
    """Let the broker close every client connection (of one virtual host)."""
    where = ["--vhost", vhost] if vhost else ["--global"]
    nodes = [lab.node(node)] if node else lab.running()
    if lab.state.settings.cluster:
        nodes = nodes[:1]  # one member reaches all of them
    for one in nodes:
        lab.ctl("close_all_connections", *where, reason, node=one.name)
