"""One broker lab: a state directory, an Erlang port mapper of its own, any number of private nodes.

    with BrokerLab(Path("state")) as lab:      # down again at the end of the block
        lab.up(LabSettings())
        lab.amqp_url(vhost="orders")
        lab.kill("n1"); lab.start("n1")

Life cycle and processes live here. `management` asks and orders the running broker over HTTP, `faults` causes
the troubles that need the broker's own tools, `broker` is the command line.
"""

from __future__ import annotations

import contextlib
import fcntl
import re
import shutil
import signal
import socket
import subprocess
import urllib.parse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from integration.lab import node_files, surroundings
from integration.lab.installs import DEFAULT_ROOTS, ensure_installed
from integration.lab.lab_state import ADMIN, LabSettings, LabState, Node
from integration.lab.management import Management
from integration.lab.ports import free_ports
from integration.lab.processes import LabError, ProcessId, run
from integration.lab.surroundings import Surroundings
from integration.lab.waiting import NotInTimeError, wait_until

AMQP_GREETING = b"AMQP\x00\x00\x09\x01"


class BrokerLab:
    """Private RabbitMQ nodes below one directory."""

    def __init__(
        self,
        state_dir: Path,
        *,
        roots: Path = DEFAULT_ROOTS,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.state_dir = state_dir.absolute()
        self._roots = roots
        self._note = note
        self._file = self.state_dir / "lab.json"
        self._children: list[subprocess.Popen[bytes]] = []
        self._state = LabState.load(self._file) if self._file.exists() else None

    def __enter__(self) -> BrokerLab:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    # -- what the lab is

    @property
    def state(self) -> LabState:
        """Settings, ports and processes of this lab.

        Raises:
            LabError: there is no lab in this directory.
        """
        if self._state is None:
            raise LabError(f"no lab in {self.state_dir}; start one first")
        return self._state

    @property
    def exists(self) -> bool:
        """Whether a lab was started here before."""
        return self._state is not None

    @property
    def version(self) -> str:
        """Version of the RabbitMQ that runs."""
        return self.state.install.version

    def node(self, name: str | None = None) -> Node:
        """Return a node by name, or the first one."""
        if name is None:
            return next(iter(self.state.nodes.values()))
        if name not in self.state.nodes:
            raise LabError(f"no node {name}; known: {', '.join(self.state.nodes)}")
        return self.state.nodes[name]

    def running(self) -> list[Node]:
        """Return the nodes that run and are not frozen."""
        return [node for node in self.state.nodes.values() if node.running and not node.paused]

    def log_dir(self, name: str | None = None) -> Path:
        """Return the directory of a node's logs."""
        return self.state_dir / self.node(name).name / "log"

    def amqp_url(
        self, *, user: str = ADMIN, password: str = ADMIN, vhost: str = "/", node: str | None = None, tls: bool = False
    ) -> str:
        """Return the address of a node for a client."""
        one = self.node(node)
        quoted = [urllib.parse.quote(text, safe="") for text in (user, password, vhost)]
        scheme, port = ("amqps", one.amqps) if tls else ("amqp", one.amqp)
        return f"{scheme}://{quoted[0]}:{quoted[1]}@127.0.0.1:{port}/{quoted[2]}"

    def management_url(self, *, node: str | None = None) -> str:
        """Return the address of a node's management plugin, without credentials."""
        return f"http://127.0.0.1:{self.node(node).management}"

    def management(self, node: str | None = None, *, timeout: float = 10) -> Management:
        """Return the management API of a node (the first running one), as administrator."""
        if node is None:
            running = self.running()
            if not running:
                raise LabError("no running node")
            node = running[0].name
        return Management(self.management_url(node=node), ADMIN, ADMIN, timeout=timeout)

    def ctl(self, *args: str, node: str | None = None, tool: str = "rabbitmqctl", check: bool = True) -> str:
        """Run `rabbitmqctl` or one of its siblings on a node and return what it says."""
        if not (self.state.epmd and self.state.epmd.alive):  # the tools would start a port mapper of their own
            raise LabError(f"the lab in {self.state_dir} is down")
        command = self._around.enter([f"{self.state.install.sbin}/{tool}", *args])
        return run(command, env=self._around.environment(self.node(node)), check=check, cwd="/").stdout

    # -- life cycle

    def up(self, settings: LabSettings | None = None, *, keep: bool = False, timeout: float = 180) -> None:
        """Install what is missing, start every node and wait until they are healthy.

        Args:
            settings: what is wanted; a lab that is up with other settings is an error.
            keep: start a lab that is down again, with its data and its own settings.
            timeout: seconds for all nodes together.
        """
        wanted = settings or LabSettings()
        if self._state and any(node.running for node in self._state.nodes.values()):
            if self._state.settings != wanted:
                raise LabError(f"the lab in {self.state_dir} is up with other settings; end it first")
        elif self._state is None or not keep:
            self._create(wanted)
        try:
            # Members of a cluster find each other while they boot: all are launched before one is awaited.
            self.start(timeout=timeout)
        except BaseException:
            self.down()
            raise

    def start(self, *names: str, timeout: float = 120) -> None:
        """Start nodes (all of them without names) and wait until they are healthy."""
        nodes = self._pick(names)
        for node in nodes:
            self._launch(node)
        self.wait(*names, timeout=timeout)

    def stop(self, *names: str, timeout: float = 30) -> None:
        """End nodes gracefully; their data stays."""
        for node in self._pick(names):
            if node.beam:
                node.beam.end(timeout)
            self._reap(node)

    def kill(self, *names: str) -> None:
        """Kill -9 nodes."""
        for node in self._pick(names):
            if not (node.beam and node.beam.send(signal.SIGKILL)):
                raise LabError(f"node {node.name} is not running")
            node.beam.gone(5)
            self._reap(node)

    def pause(self, *names: str) -> None:
        """Freeze nodes: the kernel still accepts connections, the broker says nothing."""
        for node in self._pick(names):
            if not (node.beam and node.beam.send(signal.SIGSTOP)):
                raise LabError(f"node {node.name} is not running")
            node.paused = True
        self._save()

    def resume(self, *names: str) -> None:
        """Thaw frozen nodes."""
        for node in self._pick(names):
            if node.beam:
                node.beam.send(signal.SIGCONT)
            node.paused = False
        self._save()

    def wait(self, *names: str, timeout: float = 120) -> None:
        """Wait until nodes (all of them without names) are healthy."""
        nodes = self._pick(names)
        try:
            for node in nodes:
                wait_until(partial(self._healthy, node), timeout, f"node {node.name} to be healthy")
            if self.state.settings.cluster and len(self.running()) == len(self.state.nodes) > 1:
                members = self.management(nodes[0].name)
                wait_until(
                    lambda: sum(bool(one.get("running")) for one in members.get("nodes")) == len(self.state.nodes),
                    timeout,
                    "the cluster to be complete",
                )
        except NotInTimeError as error:
            raise LabError(f"{error}; logs: {self.state_dir}/*/log") from error

    def down(self, *, purge: bool = False) -> None:
        """End every process of the lab; with *purge* delete its directory too. Safe to call twice."""
        if self._state:
            nodes = list(self._state.nodes.values())
            processes = [process for node in nodes for process in (node.beam, node.wrapper) if process]
            for process in processes:  # all at once: a node takes seconds to leave
                process.send(signal.SIGCONT)
                process.send(signal.SIGTERM)
            for process in processes:
                process.end(20)
            for node in nodes:
                node.beam, node.wrapper, node.paused = None, None, False
            if self._state.epmd:
                self._state.epmd.end(3)
                self._state.epmd = None
            for child in self._children:  # a test process goes on: leave it no zombies
                child.wait(5)
            self._children.clear()
            self._save()
        if purge and self.state_dir.exists():
            shutil.rmtree(self.state_dir.resolve(), ignore_errors=True)
            if self.state_dir.is_symlink():
                self.state_dir.unlink()
            self._state = None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other command lines from changing this lab meanwhile."""
        self.state_dir.mkdir(parents=True, exist_ok=True)
        with (self.state_dir / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._file.exists():
                self._state = LabState.load(self._file)
            yield

    # -- inside

    @property
    def _around(self) -> Surroundings:
        return Surroundings(self.state_dir, self.state)

    def _pick(self, names: tuple[str, ...]) -> list[Node]:
        return [self.node(name) for name in names] if names else list(self.state.nodes.values())

    def _save(self) -> None:
        if self._state and self.state_dir.exists():
            self._state.save(self._file)

    def _create(self, settings: LabSettings) -> None:
        for name in settings.names:
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                raise LabError(f"bad node name {name!r}: use small letters, digits and _")
        install = ensure_installed(settings.series, roots=self._roots, private=settings.private, note=self._note)
        if install.root is None:  # a private root brings its own hosts file
            try:
                socket.gethostbyname("localhost")
            except OSError:
                raise LabError("localhost does not resolve here; Erlang needs it in /etc/hosts") from None
        self.state_dir.mkdir(parents=True, exist_ok=True)
        mounts = install.root is not None and surroundings.can_mount()
        view = surroundings.STATE_IN_ROOT
        if install.root and not mounts:
            view = surroundings.place_below(install.root, self.state_dir)
        for name in {*settings.names, *(self._state.nodes if self._state else ())}:
            shutil.rmtree(self.state_dir / name, ignore_errors=True)  # a new lab starts without old data
        root = str(install.root) if install.root else None
        free = iter(free_ports(4 * len(settings.names) + 1))
        epmd = settings.epmd or next(free)
        self._state = LabState(settings, str(install.home), root, mounts, view, epmd)
        for number, name in enumerate(settings.names):
            asked = (settings.amqp, settings.management, settings.distribution, settings.amqps)
            amqp, management, distribution, amqps = (first + number if first else next(free) for first in asked)
            self._state.nodes[name] = Node(name, amqp, management, distribution, amqps if settings.tls else None)
        node_files.write_cookie(self.state_dir)
        if settings.tls:
            node_files.write_certificates(self.state_dir / "tls")
        for node in self._state.nodes.values():
            node_files.write_node(self._state, node, self._around)
        self._save()

    def _start_epmd(self) -> None:
        if self.state.epmd and self.state.epmd.alive:
            return
        port = self.state.epmd_port
        log = self.state_dir / "epmd.log"
        process = self._spawn([self.state.install.epmd, "-port", str(port), "-address", "127.0.0.1"], None, log)
        self.state.epmd = ProcessId.of(process.pid)
        self._save()
        try:
            wait_until(
                lambda: answers("127.0.0.1", port) or process.poll() is not None, 10, f"epmd to answer on port {port}"
            )
        except NotInTimeError as error:
            raise LabError(f"{error}; log: {log}") from error
        if process.poll() is not None:
            raise LabError(f"epmd did not start on port {port} (port taken?); log: {log}")

    def _launch(self, node: Node) -> None:
        """Start the process of one node, without waiting for it to be ready."""
        if node.running:
            return
        self._start_epmd()
        base = self.state_dir / node.name
        pid_file = base / "pid"
        pid_file.unlink(missing_ok=True)
        process = self._spawn([f"{self.state.install.sbin}/rabbitmq-server"], node, base / "log/console.log")
        node.wrapper, node.beam, node.paused = ProcessId.of(process.pid), None, False
        self._save()

        def written() -> ProcessId | None:  # the node writes its pid early in its boot
            text = pid_file.read_text().strip() if pid_file.exists() else ""
            found = ProcessId.of(int(text)) if text.isdigit() else None
            if found and found.alive:
                return found
            if process.poll() is not None:
                raise LabError(f"node {node.name} did not boot; log: {base}/log\n{self._last_words(node)}")
            return None

        try:
            node.beam = wait_until(written, 60, f"node {node.name} to boot")
        except NotInTimeError as error:
            raise LabError(f"{error}; log: {base}/log") from error
        self._save()

    def _spawn(self, command: list[str], node: Node | None, log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            process = subprocess.Popen(
                self._around.enter(command),
                env=self._around.environment(node),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._children.append(process)
        return process

    def _reap(self, node: Node) -> None:
        """After the node is gone its wrapper shell ends by itself; make sure of it."""
        if node.wrapper and not node.wrapper.gone(5):
            node.wrapper.end(1)
        for child in [child for child in self._children if child.poll() is not None]:
            self._children.remove(child)
        node.beam, node.wrapper, node.paused = None, None, False
        self._save()

    def _last_words(self, node: Node) -> str:
        console = self.state_dir / node.name / "log/console.log"
        lines = console.read_text(errors="replace").splitlines() if console.exists() else []
        telling = [line[:300] for line in lines if re.search(r"error|fail|eaddrinuse|already", line, re.IGNORECASE)]
        return "\n".join((telling or lines)[-12:])

    def _healthy(self, node: Node) -> bool:
        """Ask AMQP for its greeting and the management API for the node's own checks."""
        if not node.running:
            raise LabError(f"node {node.name} died; log: {self.log_dir(node.name)}\n{self._last_words(node)}")
        if not answers("127.0.0.1", node.amqp, AMQP_GREETING):
            return False
        if "rabbitmq_management" not in self.state.settings.plugins:
            return True
        management = self.management(node.name, timeout=5)
        return management.is_healthy(node.amqp)


def answers(host: str, port: int, greeting: bytes = b"") -> bool:
    """Say whether a port accepts connections and, given a greeting, answers it."""
    try:
        with socket.create_connection((host, port), 2) as sock:
            if not greeting:
                return True
            sock.sendall(greeting)
            sock.settimeout(5)
            return bool(sock.recv(1))
    except OSError:
        return False
