"""Runs single jobs through the process executor, shell scripts and Python as environments."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backend.worker.executors.base import (
    Ended,
    Environment,
    Handle,
    PreparedJob,
    Quotas,
    Reason,
)
from backend.worker.executors.launch import Bare, Bubblewrap
from backend.worker.executors.process import ProcessExecutor
from backend.worker.sandbox.cgroups import Groups
from gristmill.protocol import Limits

SMALL = Quotas(disk_bytes=20 * 2**20, temporary_bytes=64 * 2**20, processes=64, log_bytes=64 * 1024)


@dataclass
class Heard:
    """A listener that remembers, and lets tests wait for what is said."""

    pieces: list[tuple[str, str]] = field(default_factory=list)
    fractions: list[tuple[float, str | None]] = field(default_factory=list)
    begun: threading.Event = field(default_factory=threading.Event)
    spoke: threading.Condition = field(default_factory=threading.Condition)

    def started(self, native_id: str | None = None, at: float | None = None) -> None:
        self.begun.set()

    def progress(self, fraction: float, message: str | None) -> None:
        self.fractions.append((fraction, message))

    def log(self, stream: str, text: str) -> None:
        with self.spoke:
            self.pieces.append((stream, text))
            self.spoke.notify_all()

    def text(self, stream: str | None = None) -> str:
        return "".join(text for name, text in self.pieces if stream in (None, name))

    def wait_for(self, text: str) -> None:
        with self.spoke:
            assert self.spoke.wait_for(lambda: text in self.text(), 60), self.text()


def environment(*executable: str, binds: Sequence[str] = (), standby: bool = False) -> Environment:
    return Environment(
        name="any",
        version="1",
        os="",
        packages={},
        executable=executable,
        binds=tuple(binds),
        standby=standby,
    )


def shell(script: str) -> Environment:
    """An environment whose executable is a shell script."""
    return environment("/bin/sh", "-c", script, "sh")


def python(code: str) -> Environment:
    """An environment whose executable is the system's Python with this program."""
    return environment("/usr/bin/python3", "-c", code)


def executor(
    work: Path,
    quotas: Quotas = SMALL,
    *,
    bare: bool = False,
    groups: Groups | None = None,
    hidden: Sequence[Path] = (),
    standby: int = 0,
) -> ProcessExecutor:
    sandbox = Bare() if bare else Bubblewrap(hidden)
    return ProcessExecutor(work, sandbox, groups or Groups(), quotas, standby)


def prepared(
    folder: Path,
    made: Environment,
    *,
    memory_mb: int = 500,
    seconds: int = 30,
    inputs: tuple[tuple[Path, str], ...] = (),
    root: Path | None = None,
    job: dict[str, Any] | None = None,
    attempt: str = "b.0.1",
) -> PreparedJob:
    for name in ("algorithm", "libraries", "inputs", "data", "outputs"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return PreparedJob(
        attempt=attempt,
        folder=folder,
        job=job or {"schema": 1},
        environment=made,
        limits=Limits(memory_mb=memory_mb, time_seconds=seconds, cores=1),
        inputs=inputs,
        root=root,
    )


def run(
    tmp: Path,
    made: Environment,
    quotas: Quotas = SMALL,
    *,
    bare: bool = False,
    groups: Groups | None = None,
    hidden: Sequence[Path] = (),
    **options: Any,
) -> tuple[Ended, Heard]:
    """Run one job to its end."""
    heard = Heard()
    doing = executor(tmp / "work", quotas, bare=bare, groups=groups, hidden=hidden)
    job = prepared(tmp / "work/job", made, **options)
    return doing.start(job, heard).wait(), heard


class Background:
    """A job that runs in a thread of its own, while the test goes on."""

    def __init__(self, doing: ProcessExecutor, job: PreparedJob) -> None:
        self.heard = Heard()
        self.ended: Ended | None = None
        self._doing, self._job = doing, job
        self._handle: Handle | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self._handle = self._doing.start(self._job, self.heard)
        self._ready.set()
        self.ended = self._handle.wait()

    def kill(self, reason: Reason) -> None:
        assert self._ready.wait(60)
        assert self._handle is not None
        self._handle.kill(reason)

    def join(self) -> Ended:
        self._thread.join(60)
        assert self.ended is not None
        return self.ended
