"""Runs one job on a node of a cluster: what a worker's cluster job really does.

`python -m backend.worker.on_node FOLDER` reads the task that the worker left in the folder, runs it
as the worker would on its own machine (the same sandbox, the same limits), and writes what happens
into the folder. The manager's limits lie a little above ours: they are the net below.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from backend.worker.executors.base import CannotStart, Ended, Reason
from backend.worker.executors.launch import Bare, Bubblewrap, Sandbox
from backend.worker.executors.process import ProcessExecutor
from backend.worker.executors.spool import Spool, Task
from backend.worker.sandbox import cgroups
from gristmill.protocol import Usage

PIECE = 32 * 1024  #: characters of a log written at once
GATHER = 0.2  #: seconds that a job's output waits for company
TAKEN_BACK = 3  #: exit status when there is nothing to run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the task of a folder; return the job's exit status."""
    (folder,) = sys.argv[1:] if argv is None else argv
    spool = Spool(Path(folder))
    try:
        task = spool.task()
        first = spool.claim()
    except FileNotFoundError:
        sys.stderr.write("gristmill: the worker has taken this job back; nothing is run\n")
        return TAKEN_BACK
    if not first:
        sys.stderr.write("gristmill: this job was started before; it is not run twice\n")
        return TAKEN_BACK
    ended = run(task, Teller(spool))
    if not spool.folder.exists():
        return TAKEN_BACK
    spool.finish(ended)
    return ended.exit_code or 0


def run(task: Task, teller: Teller) -> Ended:
    """Run the job to its end, told of a SIGTERM to end it early."""
    executor = ProcessExecutor(task.job.folder, _sandbox(task), cgroups.probe(task.cgroup),
                               task.quotas)  # fmt: skip
    terminated = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: terminated.set())
    try:
        handle = executor.start(task.job, teller)
    except CannotStart as error:
        return Ended(exit_code=None, reason=Reason.LOST, usage=Usage(), detail=str(error),
                     at=time.time())  # fmt: skip

    def obey() -> None:
        terminated.wait()
        handle.kill(Reason.LOST)  # the worker knows better, if it was the worker

    threading.Thread(target=obey, name="terminated", daemon=True).start()
    ended = handle.wait()
    teller.flush()
    return replace(ended, at=time.time())


def _sandbox(task: Task) -> Sandbox:
    return Bare() if task.sandbox == "none" else Bubblewrap(task.hidden)


class Teller:
    """Writes what a job says into its spool; output in pieces, so that a line costs no write."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._stream, self._text, self._since = "", "", 0.0
        self._lock = threading.Lock()
        self._waiting = threading.Event()
        threading.Thread(target=self._keep_flushing, name="flush", daemon=True).start()

    def started(self, native_id: str | None = None, at: float | None = None) -> None:
        """The job's process really runs."""
        self._say(kind="started", at=at or time.time(), pid=os.getpid(), host=os.uname().nodename)

    def progress(self, fraction: float, message: str | None) -> None:
        """So much is done."""
        self._say(kind="progress", fraction=fraction, message=message)

    def log(self, stream: str, text: str) -> None:
        """The job printed something."""
        with self._lock:
            if stream != self._stream:
                self._flush()
                self._stream = stream
            self._text += text
            if len(self._text) >= PIECE:
                self._flush()
        self._waiting.set()

    def flush(self) -> None:
        """Write what waits."""
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        text, self._text = self._text, ""
        for at in range(0, len(text), PIECE):
            piece = text[at : at + PIECE]
            self._spool.say({"kind": "log", "stream": self._stream, "text": piece})

    def _say(self, **event: object) -> None:
        with self._lock:
            self._flush()
            self._spool.say(event)

    def _keep_flushing(self) -> None:
        while self._waiting.wait():
            time.sleep(GATHER)
            self._waiting.clear()
            try:
                self.flush()
            except OSError:  # the folder was taken away: nobody wants to hear more
                return


if __name__ == "__main__":
    sys.exit(main())
