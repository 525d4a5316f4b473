"""What was submitted, on disk before it is sent, so that a later process can pick it up.

One file of JSON lines for each manager of each transport, in
`$XDG_STATE_HOME/gristmill/journal` (`~/.local/state` by default). Lines are only ever added; each
is one write, so that processes may share the file. What the lines mean is `engine`'s business.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gristmill.errors import GristmillError

KEEP = 5000  #: runs kept when the file is shortened
SHORTEN_ABOVE = 32 * 1024**2  #: bytes


def default_folder() -> Path:
    """Where journals lie unless told otherwise; GRISTMILL_JOURNAL names another folder."""
    if named := os.environ.get("GRISTMILL_JOURNAL"):
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "gristmill" / "journal"


class Journal:
    """The journal of one manager. `durable` waits for the disk at every write.

    Without it a line survives the death of the process, not that of the machine.
    """

    def __init__(self, path: str | Path, *, durable: bool = False) -> None:
        self.path = Path(path)
        self._durable = durable
        self._file: int | None = None

    @classmethod
    def of(cls, site: str, folder: str | Path | None = None, *, durable: bool = False) -> Journal:
        """The journal of a site such as `ssh://host/slurm`."""
        name = re.sub(r"[^A-Za-z0-9._@-]+", "_", site).strip("_")
        return cls(Path(folder or default_folder()) / f"{name}.jsonl", durable=durable)

    def append(self, *events: Mapping[str, Any]) -> None:
        """Add events, all or none. Raises GristmillError when the disk refuses."""
        data = "".join(json.dumps(e, separators=(",", ":")) + "\n" for e in events).encode()
        try:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._file = os.open(self.path, flags, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_SH)
            try:
                os.write(self._file, data)
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
            if self._durable:
                os.fdatasync(self._file)
        except OSError as error:
            raise GristmillError(
                f"the journal {self.path} cannot be written ({error.strerror}); "
                "GRISTMILL_JOURNAL names another folder"
            ) from None

    def events(self) -> Iterator[dict[str, Any]]:
        """All lines, oldest first. A last line cut short by a crash is passed over."""
        if not self.path.exists():
            return
        with self.path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    event = json.loads(line)
                except json.JSONDecodeError:
                    continue
                if isinstance(event, dict):
                    yield event

    def shorten(self) -> None:
        """Drop the oldest runs of a file that has grown large."""
        if not self.path.exists() or self.path.stat().st_size < SHORTEN_ABOVE:
            return
        self.close()
        handle = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            kept = list(self.events())
            runs = list(dict.fromkeys(event.get("run") for event in kept))[-KEEP:]
            wanted = set(runs)
            text = "".join(json.dumps(e) + "\n" for e in kept if e.get("run") in wanted)
            os.ftruncate(handle, 0)
            os.pwrite(handle, text.encode(), 0)
        finally:
            os.close(handle)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class MemoryJournal(Journal):
    """A journal that ends with the process: for tests and for jobs that nobody picks up."""

    def __init__(self) -> None:
        super().__init__("memory")
        self._events: list[dict[str, Any]] = []

    def append(self, *events: Mapping[str, Any]) -> None:
        self._events.extend(json.loads(json.dumps(event)) for event in events)

    def events(self) -> Iterator[dict[str, Any]]:
        return iter(list(self._events))

    def shorten(self) -> None:
        """It is never on disk."""
