"""Sandboxes started before there is a job, so that a short block need not wait for imports.

Each waits in an empty job folder and is used for one job only: nothing is shared between jobs but
the time it takes to load numpy and pyarrow. One is kept ready for the environment and number of
cores that the last jobs asked for.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from backend.worker import processes
from backend.worker.executors.base import CannotStart, Environment
from backend.worker.executors.launch import Started
from backend.worker.sandbox import bubblewrap
from backend.worker.sandbox.cgroups import Group

LOOK_SECONDS = 0.01
BEGIN_SECONDS = 30.0  #: until a sandbox must have been set up
FOLDERS = ("algorithm", "libraries", "inputs", "data", "outputs")


@dataclass(slots=True)
class Ready:
    """A process that waits for its job."""

    key: tuple[str, str, int]  #: environment's name and version, cores
    folder: Path
    started: Started
    group: Group
    mark: str


Start = Callable[[Environment, int, Path, str], tuple[Started, Group]]


class Standby:
    """Keeps processes ready. They are the children of one thread, which lives as long as we do."""

    def __init__(self, folder: Path, size: int, start: Start) -> None:
        self._folder, self._size, self._start = folder, size, start
        self._ready: list[Ready] = []
        self._wanted: tuple[Environment, int] | None = None
        self._change = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._keep, name="standby", daemon=True)
        if size:
            self._thread.start()

    def want(self, environment: Environment, cores: int) -> None:
        """Keep processes of this kind ready from now on."""
        if self._size and environment.standby:
            with self._change:
                self._wanted = (environment, cores)
                self._change.notify_all()

    def take(self, environment: Environment, cores: int) -> Ready | None:
        """Return a process of this kind that waits, if there is one; it is the caller's now."""
        self.want(environment, cores)
        key = (environment.name, environment.version, cores)
        with self._change:
            for ready in self._ready:
                if ready.key == key and ready.started.process.poll() is None:
                    self._ready.remove(ready)
                    self._change.notify_all()
                    return ready
        return None

    def settled(self, timeout: float = 60) -> bool:
        """Wait until as many are ready as there should be."""
        with self._change:
            return self._change.wait_for(lambda: len(self._alive()) >= self._size, timeout)

    def close(self) -> None:
        """End those that wait."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        if self._size:
            self._thread.join()
        for ready in self._ready:
            discard(ready)

    def _alive(self) -> list[Ready]:
        return [ready for ready in self._ready if ready.started.process.poll() is None]

    def _keep(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._closed or self._missing(), 5)
                if self._closed:
                    return
                wanted = self._wanted
                stale = self._sort_out()
            for ready in stale:
                discard(ready)
            if wanted is not None and self._missing():
                self._add(*wanted)

    def _missing(self) -> bool:
        if self._wanted is None:
            return False
        return sum(ready.key == self._key() for ready in self._alive()) < self._size

    def _key(self) -> tuple[str, str, int]:
        assert self._wanted is not None
        environment, cores = self._wanted
        return (environment.name, environment.version, cores)

    def _sort_out(self) -> list[Ready]:
        """Take out what ended by itself, or is of a kind that is no longer asked for."""
        alive = self._alive()
        keep = [r for r in alive if self._wanted is None or r.key == self._key()]
        stale = [r for r in self._ready if r not in keep]
        self._ready = keep
        return stale

    def _add(self, environment: Environment, cores: int) -> None:
        mark = f"standby-{uuid.uuid4().hex}"
        folder = self._folder / mark
        for name in FOLDERS:
            (folder / name).mkdir(parents=True)
        (folder / "job.json").touch()
        try:
            started, group = self._start(environment, cores, folder, mark)
        except CannotStart:
            shutil.rmtree(folder, ignore_errors=True)
            with self._change:
                self._wanted = None  # until a job asks again
            return
        key = (environment.name, environment.version, cores)
        ready = Ready(key, folder, started, group, mark)
        if not self._has_begun(started):
            discard(ready)
            return
        with self._change:
            self._ready.append(ready)
            self._change.notify_all()

    def _has_begun(self, started: Started) -> bool:
        """Wait until the sandbox stands: before, its folder must not be taken away from it."""
        until = time.monotonic() + BEGIN_SECONDS
        while not self._closed and time.monotonic() < until and started.process.poll() is None:
            if processes.has_begun_below(started.process.pid, bubblewrap.PROGRAM):
                return True
            time.sleep(LOOK_SECONDS)
        return False


def discard(ready: Ready) -> None:
    """End a process that waits, and remove its folder."""
    killed = processes.destroy(ready.started.process.pid)
    ready.started.process.wait()
    processes.wait_gone(killed)
    ready.started.close()
    ready.group.remove()
    shutil.rmtree(ready.folder, ignore_errors=True)
