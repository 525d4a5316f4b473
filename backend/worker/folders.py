"""Job folders: laid out from an assignment, removed afterwards, swept when the worker starts."""

from __future__ import annotations

import fcntl
import re
import signal
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import IO

import structlog

from backend.worker import processes, trees
from gristmill.protocol import Assignment

log = structlog.get_logger()
ATTEMPT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
PARTS = ("algorithm", "libraries", "inputs", "data", "outputs")


class BadAssignment(Exception):
    """The assignment names a place outside its job folder, or itself badly."""


class InUse(Exception):
    """Another worker process works in this folder."""


def inside(folder: Path, name: str) -> Path:
    """Return `name` below `folder`. Raises BadAssignment where it leads elsewhere."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
        raise BadAssignment(f"the server names a place outside the job folder: {name!r}")
    return folder.joinpath(*parts)


class Folders:
    """The worker's own folder, with one folder for each running job."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.jobs = work / "jobs"
        self._lock: IO[str] | None = None

    def take(self, keep: Collection[str] | None = None) -> None:
        """Make the folder ours alone, and remove what an earlier process left. Raises InUse.

        `keep`: attempts that go on without a worker; None where they all die with theirs.
        """
        self.work.mkdir(parents=True, exist_ok=True)
        self.work.chmod(0o700)
        lock = (self.work / "lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise InUse(f"another worker runs in {self.work}; give --work or --name") from error
        self._lock = lock
        if keep is None:
            self._sweep()
        else:
            self._sweep_but(keep)

    def release(self) -> None:
        """Let another process have the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _sweep(self) -> None:
        """Jobs die with their worker; should one live, it is ended before its folder goes."""
        if left := processes.working_in(self.work):
            log.warning("ending jobs that an earlier process left", processes=left)
            processes.send(left, signal.SIGKILL)
        for name in ("jobs", "standby"):
            trees.remove(self.work / name)
        self.jobs.mkdir()

    def _sweep_but(self, keep: Collection[str]) -> None:
        self.jobs.mkdir(exist_ok=True)
        for folder in self.jobs.iterdir():
            if folder.name not in keep:
                trees.remove(folder)

    def lay_out(self, assignment: Assignment) -> Path:
        """Write the sources of a job into a folder of its own."""
        if not ATTEMPT.fullmatch(assignment.attempt):
            raise BadAssignment(f"an attempt cannot be called {assignment.attempt!r}")
        folder = self.jobs / assignment.attempt
        for part in PARTS:
            (folder / part).mkdir(parents=True, exist_ok=True)
        for name, text in assignment.files.items():
            path = inside(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return folder

    def remove(self, attempt: str) -> None:
        """Remove the folder of a job."""
        trees.remove(self.jobs / attempt)
