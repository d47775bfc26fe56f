"""Where the commands of a node run: its environment and, for a private root, the way into it.

Mounts live in a mount namespace of the started process and vanish with it. Where mounting is not permitted
(unprivileged containers) the state directory lies below the root instead, with a link from outside.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from integration.lab.lab_state import LabState, Node
from integration.lab.processes import LabError, run

STATE_IN_ROOT = "/srv/lab"
ENTER = (
    'set -e; r=$1; s=$2; shift 2; mount --bind "$s" "$r/srv/lab"; '
    'mount -t proc proc "$r/proc" 2>/dev/null || mount --rbind /proc "$r/proc"; '
    'mount --rbind /dev "$r/dev"; mount --rbind /sys "$r/sys" 2>/dev/null || true; '
    'exec chroot "$r" "$@"'
)


def can_mount() -> bool:
    """Say whether a mount namespace of our own may be filled."""
    probe = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "mount --bind /tmp /tmp"]
    return run(probe, check=False).returncode == 0


def place_below(root: Path, state_dir: Path) -> str:
    """Move the (empty) state directory below *root*, link to it, and return where it is inside."""
    digest = hashlib.sha256(str(state_dir).encode()).hexdigest()[:8]
    view = f"{STATE_IN_ROOT}-{digest}"
    real = Path(f"{root}{view}")
    real.mkdir(parents=True, exist_ok=True)
    if not state_dir.is_symlink():
        if [path for path in state_dir.iterdir() if path.name != ".lock"]:
            raise LabError(f"{state_dir} is not empty, and mounts are not permitted here")
        shutil.rmtree(state_dir)
        state_dir.symlink_to(real)
    return view


class Surroundings:
    """The place a lab's commands run in."""

    def __init__(self, state_dir: Path, state: LabState) -> None:
        self.state_dir = state_dir
        self._state = state

    def inside(self, path: Path) -> str:
        """Return *path* below the state directory as the broker sees it."""
        return f"{self._state.view}/{path.relative_to(self.state_dir)}" if self._state.root else str(path)

    def enter(self, command: list[str]) -> list[str]:
        """Return the command that runs *command* where the broker is installed."""
        root = self._state.root
        if not root:
            return command
        if not self._state.mounts:
            return ["chroot", root, *command]
        namespace = ["unshare", "--mount", "--propagation", "private"]
        return [*namespace, "sh", "-c", ENTER, "sh", root, str(self.state_dir), *command]

    def environment(self, node: Node | None = None) -> dict[str, str]:
        """Return the environment of a node's commands, or of the port mapper's without *node*."""
        env = {key: value for key, value in os.environ.items() if not key.startswith(("RABBITMQ", "ERL_"))}
        for key in ("TMPDIR", "TMP", "TEMP"):
            env.pop(key, None)
        env.update(
            PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            HOME=self.inside(self.state_dir / "home"),
            LANG="C.UTF-8",
            LC_ALL="C.UTF-8",
            ERL_EPMD_PORT=str(self._state.epmd_port),
            ERL_EPMD_ADDRESS="127.0.0.1",
            RABBITMQ_CONF_ENV_FILE="/dev/null",
        )
        if node:
            env.update(self._of_node(node))
        return env

    def _of_node(self, node: Node) -> dict[str, str]:
        base = self.inside(self.state_dir / node.name)
        return {
            "RABBITMQ_NODENAME": node.erlang_name,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(node.amqp),
            "RABBITMQ_DIST_PORT": str(node.distribution),
            "RABBITMQ_MNESIA_BASE": f"{base}/data",
            "RABBITMQ_LOG_BASE": f"{base}/log",
            "RABBITMQ_CONFIG_FILE": f"{base}/rabbitmq.conf",
            "RABBITMQ_ADVANCED_CONFIG_FILE": f"{base}/advanced.config",
            "RABBITMQ_GENERATED_CONFIG_DIR": f"{base}/generated",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{base}/enabled_plugins",
            "RABBITMQ_PID_FILE": f"{base}/pid",
            "ERL_CRASH_DUMP": f"{base}/log/erl_crash.dump",
            # No busy waiting: several nodes share few cores with the tests.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +sbwtdcpu none +sbwtdio none",
            "RABBITMQ_CTL_ERL_ARGS": "+S 1:1 +sbwt none -start_epmd false",
        }
