"""The files a node reads: its configuration, enabled plugins, the Erlang cookie, throw-away certificates.

`broker_lab` writes them before the first start; nothing here runs a node.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from integration.lab.lab_state import ADMIN
from integration.lab.processes import run

if TYPE_CHECKING:
    from integration.lab.lab_state import LabState, Node
    from integration.lab.surroundings import Surroundings


def write_cookie(state_dir: Path) -> None:
    """Make the secret the nodes of one lab share."""
    cookie = state_dir / "home/.erlang.cookie"
    cookie.parent.mkdir(parents=True, exist_ok=True)
    if not cookie.exists():
        cookie.write_text(hashlib.sha256(os.urandom(32)).hexdigest()[:40])
    cookie.chmod(0o400)


def write_certificates(tls: Path) -> None:
    """Make a throw-away CA, a server certificate for localhost and a client certificate."""
    if (tls / "client.pem").exists():
        return
    tls.mkdir(exist_ok=True)
    subject = "/O=broker-lab/CN="
    fresh_key = ["-newkey", "rsa:2048", "-nodes"]
    authority = ["-subj", f"{subject}ca", "-keyout", tls / "ca.key", "-out", tls / "ca.pem"]
    run(["openssl", "req", "-x509", *fresh_key, "-days", "30", *authority])
    for who in ("server", "client"):
        key, request, extensions = tls / f"{who}.key", tls / f"{who}.csr", tls / f"{who}.ext"
        extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
        run(["openssl", "req", *fresh_key, "-subj", subject + who, "-keyout", key, "-out", request])
        signer = ["-CA", tls / "ca.pem", "-CAkey", tls / "ca.key", "-CAcreateserial", "-extfile", extensions]
        run(["openssl", "x509", "-req", "-days", "30", "-in", request, *signer, "-out", tls / f"{who}.pem"])


def write_node(state: LabState, node: Node, around: Surroundings) -> None:
    """Write everything one node reads, below its own directory."""
    base = around.state_dir / node.name
    for sub in ("data", "log", "generated"):
        (base / sub).mkdir(parents=True, exist_ok=True)
    (base / "rabbitmq.conf").write_text("\n".join(configuration(state, node, around)) + "\n")
    (base / "advanced.config").write_text(advanced(state.settings.env))
    (base / "enabled_plugins").write_text("[" + ",".join(state.settings.plugins) + "].\n")


def configuration(state: LabState, node: Node, around: Surroundings) -> list[str]:
    """Return the lines of rabbitmq.conf."""
    lines = [
        f"listeners.tcp.1 = 127.0.0.1:{node.amqp}",
        f"default_user = {ADMIN}",
        f"default_pass = {ADMIN}",
        "loopback_users = none",
        "log.file.level = info",
        "disk_free_limit.absolute = 50MB",
    ]
    if "rabbitmq_management" in state.settings.plugins:
        lines += [
            "management.tcp.ip = 127.0.0.1",
            f"management.tcp.port = {node.management}",
            "collect_statistics_interval = 1000",
        ]
    if state.root and not state.mounts:  # no /proc to read memory sizes from
        lines += ["vm_memory_calculation_strategy = allocated", "total_memory_available_override_value = 4GB"]
    if node.amqps:
        tls = around.inside(around.state_dir / "tls")
        lines += [
            f"listeners.ssl.1 = 127.0.0.1:{node.amqps}",
            f"ssl_options.cacertfile = {tls}/ca.pem",
            f"ssl_options.certfile = {tls}/server.pem",
            f"ssl_options.keyfile = {tls}/server.key",
            "ssl_options.verify = verify_peer",
            "ssl_options.fail_if_no_peer_cert = false",
        ]
    if state.settings.cluster:
        lines.append("cluster_formation.peer_discovery_backend = classic_config")
        for number, other in enumerate(state.nodes.values(), 1):
            lines.append(f"cluster_formation.classic_config.nodes.{number} = {other.erlang_name}")
    for item in state.settings.settings:  # a setting may replace a default above
        key, _, value = item.partition("=")
        lines = [line for line in lines if line.split(" = ")[0] != key.strip()]
        lines.append(f"{key.strip()} = {value.strip()}")
    return lines


def advanced(items: tuple[str, ...]) -> str:
    """Return advanced.config with every APP.KEY=TERM below its application."""
    terms: dict[str, list[str]] = {}
    for item in items:
        left, _, value = item.partition("=")
        app, _, key = left.partition(".")
        terms.setdefault(app, []).append(f"{{{key},{value}}}")
    apps = ",".join(f"{{{app},[{','.join(pairs)}]}}" for app, pairs in terms.items())
    return f"[{apps}].\n"
