"""A process that tends the gate when the submitter has gone: `python -m gristmill.gatekeeper URL`.

One for each journal (a lock file beside it says so); it ends when nothing waits for the gate.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

from gristmill.errors import GristmillError
from gristmill.journal import Journal, MemoryJournal

_PATIENCE = 30  #: passes that may fail in a row before it gives up


def start(url: str, journal: Journal) -> None:
    """Start one in the background; a second one ends at once."""
    if isinstance(journal, MemoryJournal):
        return  # another process could not read it
    subprocess.Popen(
        [sys.executable, "-m", "gristmill.gatekeeper", url, str(journal.path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    ).returncode = 0  # it outlives us: nobody waits for it


def keep(url: str, journal: Path) -> int:
    """Tend until nothing waits. Exit status: 0, or 1 when the manager could not be reached."""
    from gristmill.connecting import connect

    lock = os.open(f"{journal}.gate", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)  # waits, so that no run falls between two keepers
    failures = 0
    with connect(url, journal=journal) as rm:
        while failures < _PATIENCE:
            try:
                if not rm.tend():
                    return 0
                failures = 0
            except GristmillError:
                failures += 1
            time.sleep(min(rm.core.poll_interval, 5.0) * (failures + 1))
    return 1


if __name__ == "__main__":
    sys.exit(keep(sys.argv[1], Path(sys.argv[2])))
