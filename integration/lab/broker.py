"""Command line of the broker lab: `python -m integration.lab.broker --help`.

Results go to standard output, progress and errors to standard error. Exit codes: 0 done, 1 failed with a
reason, 2 wrong usage. Everything is done by `broker_lab`, `management` and `faults`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from integration.lab import faults
from integration.lab.broker_lab import BrokerLab
from integration.lab.installs import DEFAULT_ROOTS, ensure_installed
from integration.lab.lab_state import ADMIN, LabSettings
from integration.lab.private_roots import SUITES
from integration.lab.processes import LabError
from integration.lab.waiting import NotInTimeError

DEFAULT_STATE = Path(os.environ.get("BROKER_STATE", "/var/tmp/broker-lab"))
Args = argparse.Namespace
Command = Callable[[BrokerLab, Args], None]


def note(text: str) -> None:
    """Tell progress."""
    print(f"broker: {text}", file=sys.stderr, flush=True)


def install(_: BrokerLab, args: Args) -> None:
    """Install a series."""
    begun = time.monotonic()
    found = ensure_installed(args.series, roots=args.roots, private=args.private, force=args.force, note=note)
    print(f"RabbitMQ {found.version} in {found.root or 'host packages'} ({time.monotonic() - begun:.1f} s)")


def up(lab: BrokerLab, args: Args) -> None:
    """Install if needed, start the nodes, wait until they are healthy, print URLs."""
    begun = time.monotonic()
    settings = LabSettings(
        names=tuple(args.names.split(",")) if args.names else tuple(f"n{i + 1}" for i in range(args.nodes)),
        cluster=args.cluster,
        series=args.series,
        private=args.private,
        tls=args.tls is not None,
        plugins=tuple(args.plugins.split(",")),
        settings=tuple(args.set),
        env=tuple(args.env),
        amqp=args.amqp,
        management=args.mgmt,
        distribution=args.dist,
        amqps=args.tls or None,
        epmd=args.epmd,
    )
    with lab.locked():
        lab.up(settings, keep=args.keep, timeout=args.timeout)
    note(f"{len(lab.state.nodes)} node(s) of RabbitMQ {lab.version} ready in {time.monotonic() - begun:.1f} s")
    urls(lab, args)


def urls(lab: BrokerLab, args: Args) -> None:
    """Print state and URLs."""
    login: dict[str, Any] = {
        key: getattr(args, key, default) for key, default in (("user", ADMIN), ("password", ADMIN))
    }
    rows = []
    for node in lab.state.nodes.values():
        target: dict[str, Any] = {**login, "vhost": getattr(args, "vhost", "/"), "node": node.name}
        row = {
            "name": node.name,
            "state": "paused" if node.paused else "up" if node.running else "down",
            "amqp": lab.amqp_url(**target),
            "management": lab.management_url(node=node.name),
            "pid": node.beam.pid if node.beam else None,
            "log": str(lab.log_dir(node.name)),
        }
        if node.amqps:
            row.update(amqps=lab.amqp_url(**target, tls=True), tls_dir=str(lab.state_dir / "tls"))
        rows.append(row)
    if args.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print(*(row[key] for key in ("name", "state", "amqp", "management", "amqps") if key in row))


def vhost(lab: BrokerLab, args: Args) -> None:
    """Create or delete a virtual host."""
    if args.delete:
        lab.management().delete_vhost(args.name)
    else:
        lab.management().create_vhost(args.name, default_queue_type=args.default_queue_type)


def user(lab: BrokerLab, args: Args) -> None:
    """Create or delete a user."""
    if args.delete:
        lab.management().delete_user(args.name)
        return
    lab.management().create_user(args.name, args.secret, tags=args.tags)
    if args.vhost is not None:
        permissions = {key: getattr(args, key) for key in ("configure", "write", "read")}
        lab.management().grant(args.name, args.vhost, **permissions)


def alarm(lab: BrokerLab, args: Args) -> None:
    """Set or clear a resource alarm."""
    for node in [args.node] if args.node else list(lab.state.nodes):
        faults.set_alarm(lab, args.resource, raised=args.change == "set", node=node)


def close_connections(lab: BrokerLab, args: Args) -> None:
    """Close every client connection from the broker's side."""
    faults.close_connections(lab, vhost=args.vhost, node=args.node)


def ctl(lab: BrokerLab, args: Args) -> None:
    """Run rabbitmqctl on a node: ctl -- list_queues."""
    words = args.args[1:] if args.args[:1] == ["--"] else args.args
    print(lab.ctl(*words, node=args.node, tool=args.tool), end="")


def down(lab: BrokerLab, args: Args) -> None:
    """End every process of the lab."""
    if lab.exists or lab.state_dir.exists():
        with lab.locked():
            lab.down(purge=args.purge)


def on_nodes(verb: str) -> Command:
    """Return the command that calls one verb of the lab with the node named, if any."""

    def command(lab: BrokerLab, args: Args) -> None:
        names = [args.node] if args.node else []
        options = {"timeout": args.timeout} if "timeout" in args else {}
        with lab.locked():
            getattr(lab, verb)(*names, **options)

    command.__doc__ = getattr(BrokerLab, verb).__doc__
    return command


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    top = argparse.ArgumentParser(prog="broker", description=(__doc__ or "").split("\n", maxsplit=1)[0])
    top.add_argument("--state", type=Path, default=DEFAULT_STATE, help="state directory of the lab [BROKER_STATE]")
    top.add_argument("--roots", type=Path, default=DEFAULT_ROOTS, help="where private roots go [BROKER_ROOTS]")
    commands = top.add_subparsers(dest="command", required=True)

    def add(name: str, function: Command) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=(function.__doc__ or "").strip().split("\n")[0])
        command.set_defaults(function=function)
        return command

    add_life_cycle(add)
    add_administration(add)
    return top


def add_life_cycle(add: Callable[[str, Command], argparse.ArgumentParser]) -> None:
    """Describe what starts, stops and shows nodes."""
    command = add("install", install)
    command.add_argument("series", choices=SUITES)
    command.add_argument("--private", action="store_true", help="a private root even when the host has the series")
    command.add_argument("--force", action="store_true", help="build the private root anew")

    command = add("up", up)
    command.add_argument("--series", choices=SUITES, help="default: what this machine has or its release offers")
    command.add_argument("--private", action="store_true")
    command.add_argument("--nodes", type=int, default=1)
    command.add_argument("--names", help="comma separated node names (default n1,n2,...)")
    command.add_argument("--cluster", action="store_true", help="form one cluster of all nodes")
    command.add_argument("--amqp", type=int, help="port of the first node, counting up; default: free ones")
    command.add_argument("--mgmt", type=int)
    command.add_argument("--dist", type=int)
    command.add_argument("--epmd", type=int)
    command.add_argument("--tls", type=int, help="also listen with TLS from this port on (0: free ones)")
    command.add_argument("--plugins", default="rabbitmq_management")
    command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="line of rabbitmq.conf")
    command.add_argument("--env", action="append", default=[], metavar="APP.KEY=TERM", help="other broker setting")
    command.add_argument("--keep", action="store_true", help="start a lab that is down again, with its data")
    command.add_argument("--timeout", type=float, default=180)
    command.add_argument("--json", action="store_true")

    for verb in ("start", "stop", "kill", "pause", "resume", "wait"):
        command = add(verb, on_nodes(verb))
        command.add_argument("node", nargs="?", help="node name; all nodes when left out")
        if verb in ("start", "wait"):
            command.add_argument("--timeout", type=float, default=120)

    command = add("ctl", ctl)
    command.add_argument("--node")
    command.add_argument("--tool", default="rabbitmqctl")
    command.add_argument("args", nargs=argparse.REMAINDER)

    command = add("urls", urls)
    for option, default in (("--user", ADMIN), ("--password", ADMIN), ("--vhost", "/")):
        command.add_argument(option, default=default)
    command.add_argument("--json", action="store_true")

    command = add("down", down)
    command.add_argument("--purge", action="store_true", help="delete the state directory too")


def add_administration(add: Callable[[str, Command], argparse.ArgumentParser]) -> None:
    """Describe what makes virtual hosts, users and troubles."""
    command = add("vhost", vhost)
    command.add_argument("name")
    command.add_argument("--default-queue-type", choices=("classic", "quorum", "stream"))
    command.add_argument("--delete", action="store_true")

    command = add("user", user)
    command.add_argument("name")
    command.add_argument("secret", nargs="?", default="")
    command.add_argument("--tags", default="", help="comma separated, e.g. management or administrator")
    command.add_argument("--vhost", help="grant permissions on this vhost")
    for permission in ("configure", "write", "read"):
        command.add_argument(f"--{permission}", default=".*")
    command.add_argument("--delete", action="store_true")

    command = add("alarm", alarm)
    command.add_argument("resource", choices=("memory", "disk"))
    command.add_argument("change", choices=("set", "clear"))
    command.add_argument("node", nargs="?")

    command = add("close-connections", close_connections)
    command.add_argument("node", nargs="?")
    command.add_argument("--vhost")


def main() -> int:
    """Run one command."""
    args = parser().parse_args()
    try:
        args.function(BrokerLab(args.state, roots=args.roots, note=note), args)
    except (LabError, NotInTimeError, OSError) as error:
        note(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
