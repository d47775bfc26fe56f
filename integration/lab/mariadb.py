"""A private MariaDB below a directory, on a free port of 127.0.0.1, without a password.

    with MariaDB(Path("state")) as server:
        server.url                              # mysql+pymysql://...

It speaks MySQL's protocol and stands for MySQL here. Its data is thrown away with the directory.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from integration.lab import apt
from integration.lab.ports import free_port
from integration.lab.postgres import unprivileged_user
from integration.lab.processes import LabError, Service, run
from integration.lab.waiting import wait_until

DATABASE = "rmqtest"
SERVER = "mariadbd"
INSTALL = "mariadb-install-db"
ADMIN = "mariadb-admin"
PATHS = ("/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin")


def find(program: str) -> Path | None:
    """Return where a program is, also outside an ordinary user's PATH."""
    found = shutil.which(program) or shutil.which(program, path=":".join(PATHS))
    return Path(found) if found else None


def ensure_installed(note: Callable[[str], None] = lambda _: None) -> None:
    """Install the server as root on Debian or Ubuntu where it is missing.

    Raises:
        LabError: it is missing and cannot be installed.
    """
    if not find(SERVER):
        note("installing mariadb-server with apt-get")
        apt.install("mariadb-server")
    if not find(SERVER):
        raise LabError("mariadb-server was installed but is not where it should be")


class MariaDB:
    """One private server with one empty database."""

    def __init__(self, directory: Path) -> None:
        ensure_installed()
        self.port = free_port()
        self.log = directory.absolute() / "mariadb.log"
        self._user = unprivileged_user()
        # Short, because a socket's path may have 107 characters, and open to the server's user.
        self._home = Path(tempfile.mkdtemp(prefix="lab-maria-"))
        if self._user:
            shutil.chown(self._home, self._user)
        self._service: Service | None = None

    @property
    def url(self) -> str:
        """The database, as an SQLAlchemy URL."""
        return f"mysql+pymysql://root@127.0.0.1:{self.port}/{DATABASE}"

    def __enter__(self) -> MariaDB:
        data = self._home / "data"
        as_user = [f"--user={self._user}"] if self._user else []
        install = [find(INSTALL), "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal"]
        run([*install, "--skip-test-db", *as_user])
        self._service = Service(
            "MariaDB",
            [
                find(SERVER),
                "--no-defaults",
                f"--datadir={data}",
                f"--port={self.port}",
                "--bind-address=127.0.0.1",
                f"--socket={self._home}/socket",
                f"--pid-file={self._home}/pid",
                "--innodb-flush-log-at-trx-commit=0",
                "--character-set-server=utf8mb4",
                *as_user,
            ],
            log=self.log,
            env={"PATH": ":".join(PATHS), "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            cwd=self._home,
        )
        wait_until(self._answers, 60, f"MariaDB to answer (log: {self.log})")
        run([*self._admin, "create", DATABASE])
        return self

    def __exit__(self, *_: object) -> None:
        if self._service:
            self._service.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    @property
    def _admin(self) -> list[object]:
        return [find(ADMIN), "--no-defaults", "-h", "127.0.0.1", "-P", self.port, "-u", "root"]

    def _answers(self) -> bool:
        if self._service:
            self._service.require_alive()
        return run([*self._admin, "ping"], check=False).returncode == 0
