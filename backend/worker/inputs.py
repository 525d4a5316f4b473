"""Input files: from the shared cache folder, or fetched over HTTP into a bounded cache of our own.

A fetched file is checked against its hash before anybody sees it, and goes on where it stopped when
the connection breaks. Files that a job uses are not dropped to make room.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from backend.worker.connection import Connection, Fenced, Pauses, Refused, Unauthorised, Unreachable
from gristmill.protocol import StoredFile

PATIENCE = 30.0  #: seconds that a file may take to appear in a shared folder (network file systems)
TRIES = 12  #: broken connections in a row before a fetch fails
CHUNK = 2**20


class FetchFailed(Exception):
    """An input could not be brought here: the worker's fault, not the job's."""


class Inputs:
    """Brings input files to this machine."""

    def __init__(
        self, folder: Path, connection: Connection, limit: int, pause: Callable[[float], None]
    ) -> None:
        self._folder, self._connection, self._limit = folder, connection, limit
        self._pause = pause
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._pinned: dict[str, int] = {}

    def find_shared(self, cache: Path, stored: StoredFile) -> Path | None:
        """Return the file in the shared folder, once all of it is visible; None if it is not."""
        path = (cache / stored.path).resolve()
        if not path.is_relative_to(cache.resolve()):
            raise FetchFailed(f"the server names a file outside the cache: {stored.path!r}")
        end = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError):
                if path.stat().st_size == stored.size:
                    return path
            if time.monotonic() >= end:
                return None
            self._pause(0.1)

    def fetch(self, attempt: str, number: int, stored: StoredFile) -> Path:
        """Return the file, fetched unless it is here already. Raises FetchFailed."""
        with self._lock:
            lock = self._locks.setdefault(stored.sha256, threading.Lock())
            self._pinned[stored.sha256] = self._pinned.get(stored.sha256, 0) + 1
        with lock:
            path = self._folder / stored.sha256
            if path.is_file() and path.stat().st_size == stored.size:
                os.utime(path)
                return path
            self._make_room(stored.size)
            self._download(f"attempts/{attempt}/inputs/{number}", stored, path)
            return path

    def release(self, stored: StoredFile) -> None:
        """The file may be dropped now, as far as one job is concerned."""
        with self._lock:
            left = self._pinned.get(stored.sha256, 0) - 1
            if left > 0:
                self._pinned[stored.sha256] = left
            else:
                self._pinned.pop(stored.sha256, None)

    def _download(self, address: str, stored: StoredFile, path: Path) -> None:
        partial = path.with_suffix(".part")
        pauses, tries = Pauses(), 0
        while (have := _size(partial)) < stored.size or not partial.exists():
            try:
                self._more(address, partial, have, stored.size)
            except (Unreachable, Unauthorised) as error:
                if _size(partial) > have:  # it goes on, only in pieces
                    tries = 0
                    pauses.reset()
                    continue
                tries += 1
                if tries >= TRIES:
                    raise FetchFailed(f"an input cannot be fetched: {error}") from error
                self._pause(pauses.next())
            except (Refused, Fenced) as error:
                raise FetchFailed(f"the server does not give an input: {error}") from error
        self._accept(partial, stored, path)

    def _more(self, address: str, partial: Path, have: int, size: int) -> None:
        headers = {"Range": f"bytes={have}-"} if have else {}
        with self._connection.stream(address, headers) as answer:
            self._connection.check(answer)
            mode = "ab" if answer.status_code == 206 else "wb"  # 200: all of it, from the start
            with partial.open(mode) as file:
                for chunk in answer.iter_bytes(CHUNK):
                    file.write(chunk)
        found = partial.stat().st_size
        if found < size:
            raise Unreachable(f"the connection ended after {found} of {size} bytes")

    def _accept(self, partial: Path, stored: StoredFile, path: Path) -> None:
        with partial.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != stored.sha256:
            partial.unlink()
            raise FetchFailed(f"an input arrived damaged: its hash is {digest[:12]}…")
        partial.chmod(0o444)
        partial.rename(path)

    def _make_room(self, size: int) -> None:
        """Drop the files longest unused until `size` more bytes fit into the limit."""
        files = [(path.stat(), path) for path in self._folder.iterdir() if path.suffix != ".part"]
        total = sum(found.st_size for found, _ in files) + size
        for found, path in sorted(files, key=lambda item: item[0].st_mtime):
            if total <= self._limit:
                return
            with self._lock:
                if path.name not in self._pinned:
                    path.unlink(missing_ok=True)
                    total -= found.st_size


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def released(inputs: Inputs, taken: list[StoredFile]) -> Iterator[None]:
    """Release, in the end, whatever was put into `taken`."""
    try:
        yield
    finally:
        for stored in taken:
            inputs.release(stored)
