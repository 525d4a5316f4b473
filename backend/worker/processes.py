"""What /proc tells of a job's processes: which there are, what memory and time they take."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
NEAREST = 16  #: killed processes that are waited for; the sandbox's first one ends last of all
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
PR_SET_CHILD_SUBREAPER = 36  #: linux/prctl.h


@dataclass(frozen=True, slots=True)
class Load:
    """What a tree of processes takes at one moment."""

    processes: int
    memory_bytes: int  #: anonymous and shared memory; mapped input files do not count
    user_seconds: float
    system_seconds: float


def adopt_orphans() -> None:
    """Let grandchildren whose parents die become our children, so that we can end them."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def parents() -> dict[int, list[int]]:
    """Map each process to its children, from one look at /proc."""
    found: dict[int, list[int]] = {}
    for entry in os.listdir(PROC):  # noqa: PTH208 - hot: called many times a second
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                text = (PROC / entry / "stat").read_text(errors="replace")
                parent = int(text[text.rindex(")") + 2 :].split(" ", 2)[1])
                found.setdefault(parent, []).append(int(entry))
    return found


def descendants(pid: int) -> list[int]:
    """Return the processes below `pid`, nearest first."""
    try:
        return list(_listed(pid))
    except FileNotFoundError:
        table = parents()
        found, new = [], [pid]
        while new:
            new = [child for one in new for child in table.get(one, ())]
            found += new
        return found


def _listed(pid: int) -> Iterator[int]:
    """As the kernel lists them (CONFIG_PROC_CHILDREN), without looking at all processes."""
    waiting = [pid]
    if not (PROC / str(os.getpid()) / "task" / str(os.getpid()) / "children").exists():
        raise FileNotFoundError
    while waiting:
        for task in _tasks(waiting.pop()):
            with contextlib.suppress(OSError):
                for child in map(int, (task / "children").read_text().split()):
                    yield child
                    waiting.append(child)


def _tasks(pid: int) -> list[Path]:
    with contextlib.suppress(OSError):
        return list((PROC / str(pid) / "task").iterdir())
    return []


def load(pids: list[int]) -> Load:
    """Sum up what some processes take; those that are gone by now count nothing."""
    memory, user, system, alive = 0, 0.0, 0.0, 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            memory += _memory(pid)
            times = _times(pid)
            user, system, alive = user + times[0], system + times[1], alive + 1
    return Load(alive, memory, user, system)


def _memory(pid: int) -> int:
    wanted = ("RssAnon:", "RssShmem:", "VmSwap:")
    lines = (PROC / str(pid) / "status").read_text(errors="replace").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(wanted))


def _times(pid: int) -> tuple[float, float]:
    """User and system time, with that of its children that ended."""
    text = (PROC / str(pid) / "stat").read_text(errors="replace")
    values = text[text.rindex(")") + 2 :].split()
    user, system, child_user, child_system = map(int, values[11:15])
    return (user + child_user) / TICK, (system + child_system) / TICK


def temporary_bytes(pid: int, size: int) -> int:
    """How much the private /tmp and /dev/shm of a sandboxed process hold: memory as well.

    `size` is what they were made with, and tells them from the machine's own folders and from
    others that the process sees until its sandbox stands. One call: nothing changes in between.
    """
    total = 0
    for folder in ("tmp", "dev/shm"):
        with contextlib.suppress(OSError):
            found = os.statvfs(PROC / str(pid) / "root" / folder)
            if 0 <= found.f_blocks * found.f_frsize - size < PAGE:
                total += (found.f_blocks - found.f_bfree) * found.f_frsize
    return total


def destroy(pid: int) -> list[tuple[int, int]]:
    """Kill a process and all below it, with no chance for it to start another in between.

    A sandbox that is just being set up does not yet die with its parent, so its end is not left to
    that. Returns what was below it, for `wait_gone`: (process, descriptor of it).
    """
    send([pid], signal.SIGSTOP)
    _wait_stopped(pid)
    all_below = descendants(pid)
    below = []
    for one in all_below[:NEAREST]:
        with contextlib.suppress(ProcessLookupError):
            below.append((one, os.pidfd_open(one)))
    send([*all_below, pid], signal.SIGKILL)
    return below


def _wait_stopped(pid: int) -> None:
    """A fork that was under way when the signal came is done before the process stands still."""
    for _ in range(1000):
        try:
            text = (PROC / str(pid) / "stat").read_text(errors="replace")
        except OSError:
            return
        if text[text.rindex(")") + 2] in "TtZX":
            return
        time.sleep(0.001)


def wait_gone(killed: list[tuple[int, int]]) -> None:
    """Wait until killed processes have ended, and take note of those that became our children."""
    for pid, descriptor in killed:
        wait_over(descriptor)
        os.close(descriptor)
        reap(pid)
    killed.clear()


def wait_over(descriptor: int) -> None:
    """Wait until a process, given by its descriptor, has ended."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.poll()


def send(pids: list[int], number: signal.Signals) -> None:
    """Send a signal to processes; those that are gone are no matter."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def has_begun_below(pid: int, launcher: str) -> bool:
    """Tell whether `launcher`, which is what `pid` runs, has started another program."""
    programs = {_program(child) for child in descendants(pid)} - {None}
    return _program(pid) == launcher and bool(programs - {launcher})


def _program(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return None


def marked(mark: str) -> list[int]:
    """Return the processes that have `mark` (NAME=value) in their environment."""
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def working_in(folder: Path) -> list[int]:
    """Return the processes whose working folder lies in `folder`."""
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if (entry / "cwd").readlink().is_relative_to(folder):
                    found.append(int(entry.name))
    return found


def reap(pid: int) -> None:
    """Take note of the end of an adopted process, once it has ended."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
