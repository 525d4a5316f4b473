"""Make sure that what no Python package brings is on this machine: Node, bubblewrap, Chromium …

    python scripts/system.py NEED …

Each NEED that is missing is installed where that is possible (Debian packages when root; Node into
.venv), and otherwise named in one sentence. Standard library only: it runs before anything else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
NODE_AT_LEAST = (20, 19)


@dataclass(frozen=True)
class Need:
    """A program that must be there, and the Debian packages that bring it."""

    present: Callable[[], bool]
    packages: tuple[str, ...]
    why: str


def on_path(*programs: str) -> Callable[[], bool]:
    """Return a check that all these programs are found."""
    return lambda: all(shutil.which(p, path=_search_path()) for p in programs)


def _search_path() -> str:
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


NEEDS = {
    "bubblewrap": Need(on_path("bwrap"), ("bubblewrap",), "the sandbox in which blocks run"),
    "chromium": Need(on_path("chromium"), ("chromium",), "the browser tests"),
    "sshd": Need(on_path("sshd", "ssh"), ("openssh-server", "openssh-client"), "the SSH tests"),
}


def node_is_new_enough() -> bool:
    """Tell whether the `node` that we would run, from .venv or PATH, is recent."""
    path = os.pathsep.join([str(VENV / "bin"), _search_path()])
    node, npm = shutil.which("node", path=path), shutil.which("npm", path=path)
    if not node or not npm:
        return False
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    numbers = re.match(r"v(\d+)\.(\d+)", said)
    return bool(numbers) and tuple(map(int, numbers.groups())) >= NODE_AT_LEAST


def install_node() -> None:
    """Install Node from its Python package into .venv."""
    subprocess.run(
        [VENV / "bin/uv", "pip", "install", "--quiet", "--python", VENV / "bin/python",
         "--require-hashes", "-r", ROOT / "requirements/node.txt"],
        check=True,
    )  # fmt: skip


def install_packages(packages: list[str]) -> None:
    """Install Debian packages; the lists are renewed only when the first try fails."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
    if subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=False).returncode:
        subprocess.run(["apt-get", "update", "-q"], env=env, stdout=subprocess.DEVNULL, check=True)
        subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)


def playwright_chromium() -> bool:
    """Install Playwright's own Chromium, where Debian's cannot be installed."""
    command = [VENV / "bin/python", "-m", "playwright", "install", "chromium"]
    return subprocess.run(command, check=False).returncode == 0


def main(needs: list[str]) -> int:
    """Provide each need; return 1 and say so when one cannot be had."""
    wanted = [n for n in needs if n != "node"]
    if "node" in needs and not node_is_new_enough():
        install_node()
    missing = [n for n in wanted if not NEEDS[n].present()]
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        install_packages([p for n in missing for p in NEEDS[n].packages])
        missing = [n for n in missing if not NEEDS[n].present()]
    if "chromium" in missing and playwright_chromium():
        missing.remove("chromium")
    for name in missing:
        need = NEEDS[name]
        print(
            f"Gristmill needs {name} for {need.why}, and it is not on this machine: "
            f"install it (Debian: apt-get install {' '.join(need.packages)}) and run make again.",
            file=sys.stderr,
        )
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
