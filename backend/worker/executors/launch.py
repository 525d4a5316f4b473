"""Starts the environment's executable, shut in or bare, with pipes for all that it says."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from backend.worker.executors.base import CannotStart, Environment, Quotas
from backend.worker.sandbox import bubblewrap, seccomp

#: sets limits that hold for the whole tree, joins control groups, offers itself to the kernel's
#: out-of-memory killer before the worker, and becomes the program
SCRIPT = """
ulimit -c 0; ulimit -n "$1"; ulimit -f "$2"; shift 2
echo 1000 2>/dev/null >/proc/self/oom_score_adj
while [ "$1" != -- ]; do echo $$ >"$1" || exit 126; shift; done
shift; unset PWD OLDPWD; exec "$@"
"""
MARK = "GRISTMILL_ATTEMPT"  #: in the environment of a job's processes


@dataclass(slots=True)
class Started:
    """A process that was started, and what to read from it."""

    process: subprocess.Popen[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]
    messages: IO[bytes]
    messages_fd: int  #: the descriptor's number inside the job
    info: IO[bytes] | None  #: bubblewrap's own report

    def close(self) -> None:
        """Close our ends of the pipes."""
        pipes = (self.stdout, self.stderr, self.messages, self.info, self.process.stdin)
        for pipe in pipes:
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to start."""

    call: str  #: "run", "standby" or "describe"
    folder: Path
    environment: Environment
    cores: int
    mark: str
    quotas: Quotas
    groups: Sequence[str] = ()  #: cgroup.procs files to join
    before: Callable[[int], None] = lambda _: None  #: called with the messages' descriptor
    inputs: tuple[tuple[Path, str], ...] = ()
    root: Path | None = None


class Sandbox(Protocol):
    """Starts a process; `name` is what the server shows."""

    name: str
    job: str | None  #: where the job folder is seen inside; None: at its own place

    def start(self, request: Request) -> Started:
        """Start the executable."""


def variables(cores: int, home: str) -> dict[str, str]:
    """Return the whole environment of a job; nothing of the worker's own gets in."""
    threads = {
        f"{library}_NUM_THREADS": str(cores)
        for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM")
    }
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "TMPDIR": home,
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "PYTHONSAFEPATH": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **threads,
    }


class Bubblewrap:
    """Starts executables inside bubblewrap."""

    name = "bubblewrap"
    job: str | None = bubblewrap.JOB

    def __init__(self, hidden: Sequence[Path]) -> None:
        self._hidden = tuple(path.resolve() for path in hidden)
        self._filter = seccomp.filter_for()

    def start(self, request: Request) -> Started:
        """Start the executable in a sandbox of its own."""
        view = bubblewrap.View(
            folder=request.folder,
            binds=request.environment.binds,
            inputs=request.inputs,
            root=request.root,
            hidden=self._hidden,
            temporary_bytes=request.quotas.temporary_bytes,
        )
        info, info_inside = os.pipe()
        filter_fd = bubblewrap.file_with("filter", self._filter)
        inside = variables(request.cores, "/tmp")  # noqa: S108 - the sandbox's own
        args_fd = bubblewrap.file_with(
            "arguments", bubblewrap.arguments(view, inside, filter_fd, info_inside)
        )
        call = _words(request, bubblewrap.JOB)
        passed = (info_inside, filter_fd, args_fd)
        try:
            started = _start(bubblewrap.command(args_fd, call), {}, passed, request)
        except BaseException:
            os.close(info)
            raise
        finally:
            for descriptor in passed:
                os.close(descriptor)
        started.info = os.fdopen(info, "rb", buffering=0)
        return started


class Bare:
    """Starts executables without any sandbox: only for people who said that they want it."""

    name = "none"
    job: str | None = None

    def start(self, request: Request) -> Started:
        """Start the executable as it is."""
        for source, place in request.inputs:
            (request.folder / place).symlink_to(source)
        own = {**variables(request.cores, str(request.folder)), MARK: request.mark}
        call = _words(request, str(request.folder))
        return _start(["setpriv", "--pdeathsig", "KILL", *call], own, (), request)


def _words(request: Request, job: str) -> list[str]:
    """Return the executable's command line; `describe` is told of no job."""
    argument = () if request.call == "describe" else (job,)
    return [*request.environment.executable, request.call, *argument]


def _start(
    command: Sequence[str], own: Mapping[str, str], passed: Sequence[int], request: Request
) -> Started:
    """The calling thread must outlive the process: its end is the process's end."""
    messages, messages_inside = os.pipe()
    quotas = request.quotas
    limits = [str(quotas.open_files), str(-(-quotas.disk_bytes // 512))]
    argv = ["/bin/sh", "-c", SCRIPT, "gristmill", *limits, *request.groups, "--", *command]
    try:
        request.before(messages_inside)
        process = subprocess.Popen(
            argv,
            bufsize=0,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", **own},
            cwd=request.folder,
            stdin=subprocess.PIPE if request.call == "standby" else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[messages_inside, *passed],
            start_new_session=True,
        )
    except OSError as error:
        os.close(messages)
        raise CannotStart(f"the job's process cannot be started: {error}") from error
    finally:
        os.close(messages_inside)
    assert process.stdout is not None
    assert process.stderr is not None
    started = Started(
        process=process,
        stdout=process.stdout,
        stderr=process.stderr,
        messages=os.fdopen(messages, "rb", buffering=0),
        messages_fd=messages_inside,
        info=None,
    )
    for pipe in (started.stdout, started.stderr, started.messages):
        os.set_blocking(pipe.fileno(), False)
    return started
