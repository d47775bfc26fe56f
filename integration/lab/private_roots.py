"""A RabbitMQ series this machine's release does not have, unpacked below a directory of its own.

The machine's apt resolves and verifies the packages against an empty package database; no maintainer script
runs, and the machine's packages, sources and caches stay as they are. `installs` decides when this is needed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from integration.lab import apt
from integration.lab.processes import LabError, run

#: RabbitMQ series and the Debian suite that packages it.
SUITES = {"3.10": "bookworm", "4.0": "trixie"}
#: Raised when the way a root is built changes, so that old ones are built anew.
FORMAT = "1"
MARKER = "etc/broker-lab"


def is_complete(root: Path) -> bool:
    """Say whether *root* was built to its end by this version of the builder."""
    marker = root / MARKER
    return marker.exists() and marker.read_text().startswith(FORMAT + " ")


def debian_mirror() -> str:
    """Return the Debian archive this machine's apt is already configured with."""
    done = run(["apt-get", "indextargets", "--format", "$(REPO_URI)|$(RELEASE)|$(COMPONENT)", "Created-By: Packages"])
    for line in done.stdout.splitlines():
        uri, _, rest = line.partition("|")
        release, _, component = rest.partition("|")
        if component == "main" and release in (apt.host_suite(), "stable", "testing"):
            return uri
    raise LabError("no Debian archive found in this machine's apt configuration")


def keyring() -> Path:
    """Return the keys Debian signs its releases with."""
    for name in ("debian-archive-keyring.gpg", "debian-archive-keyring.pgp"):
        path = Path("/usr/share/keyrings") / name
        if path.exists():
            return path
    raise LabError("debian-archive-keyring is not installed")


def build(series: str, root: Path, note: Callable[[str], None]) -> None:
    """Unpack the series and everything it depends on below *root*."""
    root.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{root.name}-", dir=root.parent))
    try:
        download(series, work, note)
        tree = work / "tree"
        unpack(sorted((work / "archives").glob("*.deb")), tree, note)
        furnish(tree)
        (tree / MARKER).write_text(f"{FORMAT} {SUITES[series]}\n")
        shutil.rmtree(root, ignore_errors=True)
        tree.rename(root)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def download(series: str, work: Path, note: Callable[[str], None]) -> None:
    """Let apt fetch the packages into *work*, with a package database of its own."""
    for sub in ("lists/partial", "archives/partial", "etc/preferences.d", "log"):
        (work / sub).mkdir(parents=True)
    status = work / "status"
    status.touch()
    suite = SUITES[series]
    sources = work / "sources.list"
    sources.write_text(f"deb [signed-by={keyring()}] {debian_mirror()} {suite} main\n")
    options = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": work / "etc/preferences.d",
        "Dir::State": work,
        "Dir::State::lists": work / "lists",
        "Dir::State::status": status,
        "Dir::State::extended_states": work / "extended_states",
        "Dir::Cache": work,
        "Dir::Cache::archives": work / "archives",
        "Dir::Log": work / "log",
        "APT::Default-Release": "",
        "APT::Update::Post-Invoke": "",
        "APT::Update::Post-Invoke-Success": "",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "true",
        "Acquire::Retries": "3",
    }
    # `#clear` drops the machine's cleanup hooks, which work on the machine's own cache.
    config = work / "apt.conf"
    config.write_text(
        "#clear DPkg::Post-Invoke;\n#clear DPkg::Pre-Install-Pkgs;\n#clear APT::Update::Post-Invoke;\n"
        "#clear APT::Update::Post-Invoke-Success;\n#clear APT::Update::Pre-Invoke;\n"
    )
    command = ["apt-get", "-y"]
    for key, value in options.items():
        command += ["-o", f"{key}={value}"]
    env = {**os.environ, "APT_CONFIG": str(config), "DEBIAN_FRONTEND": "noninteractive"}
    note(f"reading the {suite} package index")
    run([*command, "update"], env=env)
    note(f"downloading RabbitMQ {series} and its dependencies")
    run([*command, "--download-only", "install", "?essential", "rabbitmq-server"], env=env)


def unpack(debs: list[Path], tree: Path, note: Callable[[str], None]) -> None:
    """Unpack packages into one tree, with /usr merged whatever the suite ships."""
    tree.mkdir()
    for name in ("bin", "sbin", "lib", "lib64"):
        (tree / "usr" / name).mkdir(parents=True, exist_ok=True)
        (tree / name).symlink_to(f"usr/{name}")
    note(f"unpacking {len(debs)} packages")
    left_out = [f"--exclude=./usr/share/{name}/*" for name in ("doc", "man", "locale")]
    command = ["tar", "-xp", "--keep-directory-symlink", "-C", str(tree), "-f", "-", *left_out]
    for deb in debs:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE) as data:
            done = subprocess.run(command, check=False, stdin=data.stdout, stderr=subprocess.PIPE, text=True)
        if data.returncode or done.returncode:
            raise LabError(f"unpacking {deb.name} failed: {done.stderr.strip()}")


def furnish(tree: Path) -> None:
    """Add what maintainer scripts would have left behind, as far as Erlang needs it."""
    for sub in (
        *("dev/pts", "dev/shm", "proc", "sys", "tmp", "etc", "root", "srv/lab"),
        *("var/lib/rabbitmq", "var/log/rabbitmq", "etc/rabbitmq"),
    ):
        (tree / sub).mkdir(parents=True, exist_ok=True)
    (tree / "tmp").chmod(0o1777)
    (tree / "etc/passwd").write_text(
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
    )
    (tree / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    (tree / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost ip6-localhost\n")
    (tree / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
    awk, mawk = tree / "usr/bin/awk", tree / "usr/bin/mawk"
    if not awk.exists() and mawk.exists():
        awk.symlink_to("mawk")
    if not (tree / "bin/sh").exists():
        (tree / "bin/sh").symlink_to("dash")
    run(["ldconfig", "-r", tree], check=False)
    # Device nodes for machines that refuse mounts; where these are refused, mounting works.
    for name, minor in (("null", 3), ("zero", 5), ("random", 8), ("urandom", 9)):
        with contextlib.suppress(OSError):
            os.mknod(tree / "dev" / name, 0o020666, os.makedev(1, minor))
            (tree / "dev" / name).chmod(0o666)
