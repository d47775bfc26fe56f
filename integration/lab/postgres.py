"""A private PostgreSQL below a directory: a cluster of its own on a free port of 127.0.0.1.

    with Postgres(Path("state")) as postgres:
        url = postgres.create_database("airflow")      # postgresql+psycopg2://...

PostgreSQL refuses to run as root; root runs it as the user postgres (or nobody). `create_database` and
`drop_database` work with any server's URL, for tests that are handed one.
"""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from integration.lab import apt
from integration.lab.ports import free_port
from integration.lab.processes import LabError, Service, run, tail
from integration.lab.waiting import wait_until

OWNER = "lab"
#: The data is thrown away, so nothing waits for a disk; a killed server still finds all it committed.
SETTINGS = ("fsync=off", "max_connections=200", "listen_addresses=127.0.0.1", "unix_socket_directories=")


def find_programs() -> Path | None:
    """Return the directory of the newest installed server, if there is one."""
    homes = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: int(re.sub(r"\D", "", path.parent.parent.name) or 0),
    )
    if homes:
        return homes[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


def ensure_installed(note: Callable[[str], None] = lambda _: None) -> Path:
    """Return the directory of the server's programs, installing them as root on Debian or Ubuntu."""
    found = find_programs()
    if not found:
        note("installing postgresql with apt-get")
        apt.install("postgresql")
        found = find_programs()
    if not found:
        raise LabError("postgresql was installed but is not where it should be")
    return found


def unprivileged_user() -> str | None:
    """Return the user to run as, None for the one we are."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise LabError("no user to run PostgreSQL as: neither postgres nor nobody exists")


class Postgres:
    """One private server. Its directory is removed with it when this made it."""

    def __init__(self, directory: Path, *, note: Callable[[str], None] = lambda _: None) -> None:
        self._programs = ensure_installed(note)
        self._user = unprivileged_user()
        self._password = secrets.token_hex(12)
        self._service: Service | None = None
        self.port = free_port()
        self.directory = self._reachable(directory.absolute())
        self.log = directory.absolute() / "postgres.log"
        self._initialise()

    def __enter__(self) -> Postgres:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The server, as an SQLAlchemy URL of its database postgres."""
        return f"postgresql+psycopg2://{OWNER}:{self._password}@127.0.0.1:{self.port}/postgres"

    @property
    def running(self) -> bool:
        """Whether the server was started and not ended."""
        return self._service is not None

    def create_database(self, name: str) -> str:
        """Make a database and return its SQLAlchemy URL."""
        return create_database(self.url, name)

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        options = [word for setting in SETTINGS for word in ("-c", setting)]
        self._service = service = Service(
            "PostgreSQL",
            [self._programs / "postgres", "-D", self.directory / "data", "-p", self.port, *options],
            log=self.log,
            env=self._environment,
            cwd=self.directory,
            user=self._user,
            stop_signal=signal.SIGINT,  # "fast": SIGTERM would wait until every client has left
        )

        def ready() -> bool:
            service.require_alive()
            probe = [self._programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", self.port]
            return run(probe, check=False).returncode == 0

        wait_until(ready, 60, f"PostgreSQL to accept connections (log: {self.log})")

    def stop(self) -> None:
        """End the server; its data stays until `remove`."""
        if self._service:
            self._service.stop()
            self._service = None

    def kill(self) -> None:
        """Kill -9 the server; `start` brings it back with all it had committed."""
        if not self._service:
            raise LabError("PostgreSQL is not running")
        self._service.kill()
        self._service.stop()  # its children leave by themselves; make sure of it
        self._service = None

    def remove(self) -> None:
        """End the server and delete its data."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    # -- inside

    @property
    def _environment(self) -> dict[str, str]:
        return {"PATH": f"{self._programs}:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def _reachable(self, directory: Path) -> Path:
        """Return a directory the server's user can write: the wanted one, or one below the temporary directory."""
        wanted = directory / "postgres"
        wanted.mkdir(parents=True, exist_ok=True)
        if self._user is None:
            return wanted
        shutil.chown(wanted, self._user)
        if subprocess.run(["test", "-w", str(wanted)], check=False, user=self._user, extra_groups=[]).returncode == 0:
            return wanted
        wanted.rmdir()  # a parent is closed to other users, as a home directory may be
        elsewhere = Path(tempfile.mkdtemp(prefix="lab-postgres-"))
        shutil.chown(elsewhere, self._user)
        return elsewhere

    def _initialise(self) -> None:
        data = self.directory / "data"
        shutil.rmtree(data, ignore_errors=True)
        secret = self.directory / "secret"
        secret.touch(mode=0o600)
        secret.write_text(self._password)
        if self._user:
            shutil.chown(secret, self._user)
        login = ["-U", OWNER, "--auth=scram-sha-256", f"--pwfile={secret}"]
        done = subprocess.run(
            [str(self._programs / "initdb"), "-D", str(data), *login, "-E", "UTF8", "--no-sync"],
            check=False,
            env=self._environment,
            cwd=self.directory,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            user=self._user,
            extra_groups=[] if self._user else None,
        )
        secret.unlink()
        if done.returncode:
            raise LabError(f"initdb failed in {self.directory}:\n{done.stdout.strip()[-1000:]}\n{tail(self.log)}")


@contextmanager
def _cursor(server_url: str) -> Iterator[Any]:
    import psycopg2

    connection = psycopg2.connect(server_url.replace("+psycopg2", "", 1))
    connection.autocommit = True  # databases are not made inside a transaction
    try:
        yield connection.cursor()
    finally:
        connection.close()


def _identifier(name: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        raise LabError(f"bad database name {name!r}: use small letters, digits and _")
    return f'"{name}"'


def create_database(server_url: str, name: str) -> str:
    """Make a database on any server and return its SQLAlchemy URL."""
    with _cursor(server_url) as cursor:
        cursor.execute(f"CREATE DATABASE {_identifier(name)}")
    return urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))


def drop_database(server_url: str, name: str) -> None:
    """Remove a database, whoever is still connected."""
    with _cursor(server_url) as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {_identifier(name)} WITH (FORCE)")
