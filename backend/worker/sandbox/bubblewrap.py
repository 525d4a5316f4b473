"""The sandbox: which arguments bubblewrap is given, and what is visible inside.

Inside: `/job` (the job folder; sources and inputs read-only), the environment and the system's
programs read-only, an own /proc, /dev, /tmp of bounded size. No network, no home, no other
process, none of the worker's variables. Cost measured: 3 ms.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from backend.worker.sandbox import seccomp

JOB = "/job"
PROGRAM = "bwrap"
READ_ONLY = ("algorithm", "libraries", "inputs", "data", "job.json")
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
#: what dynamic linking and names need; never all of /etc
ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "fonts")
USER = 1000

PROBE = (
    "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
    "--disable-userns", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one job may see."""

    folder: Path  #: becomes /job
    binds: tuple[str, ...]  #: folders of the environment, read-only at their own place
    inputs: tuple[tuple[Path, str], ...] = ()  #: (file here, place in the job folder), read-only
    root: Path | None = None  #: a folder with a database's files, read-only at its own place
    hidden: tuple[Path, ...] = ()  #: the worker's own folders, should a bind lead to them
    temporary_bytes: int


def problem(program: str | None = None) -> str | None:
    """Say why bubblewrap does not work here, or None when it does."""
    found = program or shutil.which("bwrap")
    if found is None:
        return "bubblewrap is not installed (package `bubblewrap`, command `bwrap`)"
    try:
        seccomp.filter_for()
        tried = subprocess.run([found, *PROBE], capture_output=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired, seccomp.NoFilter) as error:
        return str(error)
    if tried.returncode:
        said = tried.stderr.decode(errors="replace").strip()
        return f"bubblewrap cannot make a sandbox here: {said or f'status {tried.returncode}'}"
    return None


def arguments(view: View, environment: Mapping[str, str], filter_fd: int, info_fd: int) -> bytes:
    """Return the arguments as `bwrap --args FD` reads them, so that `ps` shows no path."""
    words = [
        "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
        "--unshare-cgroup-try", "--disable-userns", "--die-with-parent", "--new-session",
        "--uid", str(USER), "--gid", str(USER), "--hostname", "sandbox",
        "--seccomp", str(filter_fd), "--info-fd", str(info_fd), "--clearenv",
    ]  # fmt: skip
    for name, value in environment.items():
        words += ["--setenv", name, value]
    # /tmp before the binds: an environment may lie below it, and must not be covered
    words += [*_system(), *_bounded(view), *_environment(view), *_job(view)]
    # read-only /proc: a job of root's is root to /proc/sys, even inside its user namespace
    for folder in ("/proc", "/dev", "/"):
        words += ["--remount-ro", folder]
    words += ["--chdir", JOB]
    return b"".join(word.encode() + b"\0" for word in words)


def _system() -> list[str]:
    words: list[str] = []
    for folder in SYSTEM:
        if Path(folder).is_symlink():
            words += ["--symlink", str(Path(folder).readlink()), folder]
        elif Path(folder).is_dir():
            words += ["--ro-bind", folder, folder]
    for name in ETC:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return words


def _environment(view: View) -> list[str]:
    words: list[str] = []
    for folder in _outermost(view.binds):
        words += ["--ro-bind", folder, folder]
    if view.root is not None:
        words += ["--ro-bind", str(view.root), str(view.root)]
    for own in view.hidden:
        inside = any(own.is_relative_to(bind) for bind in (*view.binds, *SYSTEM))
        if inside and own.is_dir():
            words += ["--tmpfs", str(own), "--remount-ro", str(own)]
        elif inside and own.exists():
            words += ["--ro-bind", "/dev/null", str(own)]
    return words


def _outermost(folders: Iterable[str]) -> list[str]:
    """Leave out folders that lie in another one, or in the system's."""
    found = sorted({str(Path(folder)) for folder in folders})
    others = [Path(folder) for folder in (*found, *SYSTEM)]
    return [
        folder
        for folder in found
        if not any(Path(folder) != o and Path(folder).is_relative_to(o) for o in others)
    ]


def _job(view: View) -> list[str]:
    words = ["--bind", str(view.folder), JOB]
    if (view.folder / "outputs").is_dir():  # a mount of its own, so that it cannot be renamed
        words += ["--bind", str(view.folder / "outputs"), f"{JOB}/outputs"]
    for name in READ_ONLY:
        if (view.folder / name).exists():
            words += ["--ro-bind", str(view.folder / name), f"{JOB}/{name}"]
    for source, place in view.inputs:
        words += ["--ro-bind", str(source), f"{JOB}/{place}"]
    return words


def _bounded(view: View) -> list[str]:
    """What user code can write to that is memory, of bounded size."""
    words = ["--proc", "/proc", "--dev", "/dev"]
    for folder in ("/dev/shm", "/tmp"):  # noqa: S108 - inside the sandbox, private
        words += ["--size", str(view.temporary_bytes), "--tmpfs", folder]
    return words


def file_with(name: str, content: bytes) -> int:
    """Return a descriptor, at its start, of a nameless file that holds `content`."""
    descriptor = os.memfd_create(name)
    with open(os.dup(descriptor), "wb") as file:  # noqa: PTH123 - a descriptor has no path
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def command(args_fd: int, executable: Sequence[str], program: str = PROGRAM) -> list[str]:
    """Return what to start, given a descriptor of `arguments`."""
    return [program, "--args", str(args_fd), "--", *executable]
