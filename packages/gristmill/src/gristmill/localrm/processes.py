"""What the operating system says of processes: who lives, whose child it is, what it uses."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
_PAGE = os.sysconf("SC_PAGE_SIZE")


def born(pid: int) -> int | None:
    """When it was started, in clock ticks since boot; None when there is no such process.

    With the pid this names a process for good, since pids are used again. proc(5), field 22.
    """
    found = _stat(pid)
    return None if found is None or found[0] == "Z" else int(found[19])


def alive(pid: int | None, since: int | None) -> bool:
    """Whether the process of that pid and birth still lives."""
    return pid is not None and since is not None and born(pid) == since


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name, which may hold spaces and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def adopt_orphans() -> None:
    """Let descendants whose parent ends become our children, so that none gets away."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root: int) -> list[int]:
    """All processes below `root`, without itself."""
    children: dict[int, list[int]] = {}
    for pid in _all():
        found = _stat(pid)
        if found is not None:
            children.setdefault(int(found[1]), []).append(pid)
    below: list[int] = []
    waiting = [root]
    while waiting:
        young = children.get(waiting.pop(), [])
        below += young
        waiting += young
    return below


def _all() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208  # hot


def resident(pids: list[int]) -> int:
    """Bytes of memory that these processes have in use together."""
    return sum(_resident(pid) for pid in pids)


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def send(pids: list[int], number: signal.Signals) -> None:
    """Send a signal to each that still lives."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
