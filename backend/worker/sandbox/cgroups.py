"""Control groups for the limits on memory and processes, where this machine lets us make them.

Version 2: below our own group, if it was delegated to us (it has the memory controller and we may
write). Version 1: the number of processes below our own group; memory only below a group that the
configuration names, since its tree usually belongs to somebody else. Otherwise the worker looks at
the job's processes many times a second, and the limit is then held with some delay.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MIB = 2**20


@dataclass(slots=True)
class Group:
    """The control groups of one job; none at all is possible."""

    memory: Path | None = None
    pids: Path | None = None
    version: int = 0
    seen: int = field(default=0)  #: kills for want of memory that were told before

    def joins(self) -> list[str]:
        """Return the files to which a process writes its number in order to join."""
        return [str(folder / "cgroup.procs") for folder in self._folders()]

    def _folders(self) -> list[Path]:
        return list(dict.fromkeys(f for f in (self.memory, self.pids) if f is not None))

    def limit(self, memory_mb: int, processes: int) -> None:
        """Set the limits."""
        if self.pids is not None:
            (self.pids / "pids.max").write_text(str(processes))
        if self.memory is None:
            return
        if self.version == 2:
            (self.memory / "memory.max").write_text(str(memory_mb * MIB))
            _try_write(self.memory / "memory.swap.max", "0")
            _try_write(self.memory / "memory.oom.group", "1")
        else:
            (self.memory / "memory.limit_in_bytes").write_text(str(memory_mb * MIB))

    def out_of_memory(self) -> bool:
        """Whether the kernel killed a process of the group for want of memory."""
        if self.memory is None:
            return False
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        return _number(self.memory / name, "oom_kill ") > self.seen

    def peak_mb(self) -> float:
        """The most memory that the group held, where the kernel says."""
        if self.memory is None:
            return 0.0
        name = "memory.peak" if self.version == 2 else "memory.max_usage_in_bytes"
        return _number(self.memory / name) / MIB

    def remove(self) -> None:
        """Kill what is left and remove the groups."""
        for folder in self._folders():
            _try_write(folder / "cgroup.kill", "1")
            with contextlib.suppress(OSError):
                folder.rmdir()


@dataclass(frozen=True, slots=True)
class Groups:
    """Where groups are made."""

    memory: Path | None = None
    pids: Path | None = None
    version: int = 0

    @property
    def limits(self) -> str:
        """How the memory limit is held, as the server's page says it."""
        return "polling" if self.memory is None else f"cgroup-v{self.version}"

    def sweep(self) -> None:
        """Remove the groups of workers that are gone."""
        for parent in {self.memory, self.pids} - {None}:
            assert parent is not None
            for folder in parent.glob("gristmill-*-*"):
                worker = folder.name.split("-")[1]
                if worker.isdigit() and not Path("/proc", worker).exists():
                    Group(memory=folder).remove()

    def make(self, name: str) -> Group:
        """Make the groups of a job."""
        group = Group(version=self.version)
        for kind in ("memory", "pids"):
            parent: Path | None = getattr(self, kind)
            if parent is not None:
                folder = parent / name
                folder.mkdir(exist_ok=True)
                setattr(group, kind, folder)
        return group


def probe(configured: Path | None, *, root: Path = ROOT, own: str | None = None) -> Groups:
    """Find out where groups can be made: `configured` is a version 1 memory group, or None."""
    table = _own_groups(own)
    delegated = _version_2(root, table.get("", "/"))
    if delegated is not None:
        return Groups(memory=delegated, pids=delegated, version=2)
    pids = _writable(root / "pids" / table.get("pids", "/").strip("/"), "pids.max")
    memory = None
    if configured is not None:
        memory = _writable(configured, "memory.limit_in_bytes")
    return Groups(memory=memory, pids=pids, version=1 if memory or pids else 0)


def _own_groups(text: str | None) -> dict[str, str]:
    """Map each controller to our own group; version 2 has the name ""."""
    lines = (Path("/proc/self/cgroup").read_text() if text is None else text).splitlines()
    found: dict[str, str] = {}
    for line in lines:
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            found[name] = path
    return found


def _version_2(root: Path, own: str) -> Path | None:
    """Return our group if it may have children with limits; we move into a child to allow it."""
    folder = root / own.strip("/")
    try:
        if "memory" not in (folder / "cgroup.controllers").read_text().split():
            return None
        leaf = folder / "gristmill-worker"
        leaf.mkdir(exist_ok=True)
        for process in (folder / "cgroup.procs").read_text().split():
            (leaf / "cgroup.procs").write_text(process)
        (folder / "cgroup.subtree_control").write_text("+memory +pids")
    except OSError:
        return None
    return folder


def _writable(parent: Path, control: str) -> Path | None:
    """Try whether a group with that control can be made in `parent`."""
    trial = parent / f"gristmill-probe-{os.getpid()}"
    try:
        trial.mkdir()
        found = (trial / control).exists()
        trial.rmdir()
    except OSError:
        return None
    return parent if found else None


def _number(path: Path, prefix: str = "") -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        if line.startswith(prefix) and line.removeprefix(prefix).strip().isdigit():
            return int(line.removeprefix(prefix))
    return 0


def _try_write(path: Path, text: str) -> None:
    with contextlib.suppress(OSError):
        path.write_text(text)
