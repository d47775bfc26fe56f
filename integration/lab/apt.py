"""Installing Debian packages on this machine, with their services kept from starting."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from integration.lab.processes import LabError, run


def host_suite() -> str:
    """Return the code name of the distribution's release, empty when it has none."""
    release = Path("/etc/os-release")
    found = re.search(r'^VERSION_CODENAME="?(\w+)', release.read_text(), re.MULTILINE) if release.exists() else None
    return found.group(1) if found else ""


def can_install() -> bool:
    """Say whether packages can be installed here: apt, and root."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Keep a second run of ours from apt's own lock, which does not wait, and from the policy file below."""
    with Path("/run/lock/rmq-lab-apt").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def services_kept_down() -> Iterator[None]:
    """Keep maintainer scripts from starting what they install."""
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            policy.unlink()


def install(*packages: str) -> None:
    """Install packages; read the package index only when it is missing or too old for that.

    Raises:
        LabError: not root, no apt, or apt's own words.
    """
    if not can_install():
        raise LabError(f"{' '.join(packages)} must be installed first (this needs root and apt)")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    with one_at_a_time(), services_kept_down():
        if run(command, check=False, env=env).returncode:
            run(["apt-get", "update"], env=env)
            run(command, env=env)
