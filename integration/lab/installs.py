"""Where a RabbitMQ series is installed: on this machine, or below a private root.

`private_roots` unpacks a series this machine's release does not have; `apt` installs the one it has.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from integration.lab import apt, private_roots
from integration.lab.processes import LabError

#: Where private roots are kept between runs: they cost a download.
DEFAULT_ROOTS = Path(os.environ.get("BROKER_ROOTS", "/var/tmp/broker-roots"))
DEBIAN_LAYOUT = "usr/lib/rabbitmq/lib"


@dataclass(frozen=True)
class Install:
    """One installed RabbitMQ."""

    home: Path
    root: Path | None = None

    @property
    def version(self) -> str:
        """The full version, as the server's own library is named."""
        for plugin in sorted((self.home / "plugins").glob("rabbit-*")):
            return plugin.name.removeprefix("rabbit-").removesuffix(".ez")
        return self.home.name.rpartition("-")[2]

    @property
    def series(self) -> str:
        """The first two numbers of the version."""
        return ".".join(self.version.split(".")[:2])

    @property
    def sbin(self) -> str:
        """Directory of the server's scripts as the server itself sees it.

        The wrappers in /usr/sbin insist on root or the user rabbitmq; these scripts do not.
        """
        return str(Path("/") / self.home.relative_to(self.root or "/") / "sbin")

    @property
    def epmd(self) -> str:
        """Erlang's port mapper as the server itself sees it."""
        base = self.root or Path("/")
        for pattern in ("usr/lib/erlang/erts-*/bin/epmd", "opt/erlang/lib/erlang/erts-*/bin/epmd"):
            for found in sorted(base.glob(pattern), reverse=True):
                return str(Path("/") / found.relative_to(base))
        found_on_path = None if self.root else shutil.which("epmd")
        if not found_on_path:
            raise LabError("Erlang's epmd was not found")
        return found_on_path


def homes_below(root: Path) -> list[Path]:
    """Return the server directories of the Debian layout, oldest first."""
    return sorted(
        (root / DEBIAN_LAYOUT).glob("rabbitmq_server-*"),
        key=lambda home: [int(number) for number in re.findall(r"\d+", home.name)],
    )


def find_on_host(series: str | None = None) -> Install | None:
    """Return this machine's own RabbitMQ, if it has one (of that series)."""
    homes = homes_below(Path("/"))
    script = shutil.which("rabbitmq-server")
    if not homes and script:  # another packaging: the scripts are where the command leads
        homes = [Path(script).resolve().parent.parent]
    for home in reversed(homes):
        install = Install(home)
        if (home / "sbin/rabbitmq-server").exists() and series in (None, install.series):
            return install
    return None


def ensure_installed(
    series: str | None = None,
    *,
    roots: Path = DEFAULT_ROOTS,
    private: bool = False,
    force: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> Install:
    """Return the install to use, installing it where that is possible.

    Args:
        series: "3.10" or "4.0"; None for the one this machine has or its release offers.
        roots: where private roots are kept.
        private: a private root even where this machine has the series.
        force: build the private root anew.
        note: told about each step that takes time.
    """
    if series is not None and series not in private_roots.SUITES:
        raise LabError(f"unknown series {series}; known: {', '.join(private_roots.SUITES)}")
    if not private:
        found = find_on_host(series)
        if found:
            return found
        if series is None or (find_on_host() is None and private_roots.SUITES[series] == apt.host_suite()):
            note("installing rabbitmq-server with apt-get")
            apt.install("rabbitmq-server")
            found = find_on_host(series)
            if found:
                return found
            raise LabError("rabbitmq-server was installed but is not where it should be")
    if series is None:
        raise LabError("name the series of a private root")
    root = roots / f"rabbitmq-{series}"
    with locked(roots):
        if force or not private_roots.is_complete(root):
            private_roots.build(series, root, note)
    return Install(homes_below(root)[-1], root)


@contextlib.contextmanager
def locked(roots: Path) -> Iterator[None]:
    """Let one process at a time build below *roots*."""
    roots.mkdir(parents=True, exist_ok=True)
    with (roots / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
