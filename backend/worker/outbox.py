"""Reports on their way to the server: in order, batched, and on disk until they are taken.

Of each attempt there is one file with what was said about it (one JSON object a line). After a
crash of the worker, what has a "finished" line is sent again, and the rest is forgotten: those jobs
died with us. The server takes repeated reports for what they are. Progress is not kept: only the
last counts.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

from gristmill import protocol
from gristmill.protocol import Report

GATHER = 0.03  #: seconds that log and progress wait for company
BATCH = 500  #: reports in one request
PIECE = 64 * 1024  #: characters of one piece of log
BATCH_TEXT = 2**20  #: characters of log in one request


class Outbox:
    """A queue of reports; one thread takes batches from it."""

    def __init__(self, folder: Path, *, join: bool = True) -> None:
        """`join`: pieces of a log may travel as one; not where the same pieces may come again."""
        self._folder, self._join = folder, join
        folder.mkdir(parents=True, exist_ok=True)
        self._waiting: deque[Report] = deque()
        self._progress: dict[str, Report] = {}
        self._change = threading.Condition()
        self._urgent = False
        self._closed = False
        self._sending: tuple[Report, ...] = ()

    def recover(self) -> tuple[str, ...]:
        """Queue again what an earlier process could not send; return those attempts."""
        found = []
        for path in sorted(self._folder.glob("*.jsonl")):
            reports = _read(path)
            if reports and reports[-1]["kind"] == "finished":
                with self._change:
                    self._waiting.extend(Report(**report) for report in reports)
                    self._urgent = True
                found.append(str(reports[-1]["attempt"]))
            else:
                path.unlink()
        return tuple(found)

    def add(self, report: Report) -> None:
        """Queue a report; it is on disk when this returns (the last one for good)."""
        with self._change:
            if report.kind == "progress":
                self._progress[report.attempt] = report
            else:
                self._keep(report)
                self._queue(report)
            self._urgent = self._urgent or report.kind in ("started", "finished")
            self._change.notify_all()

    def _keep(self, report: Report) -> None:
        path = self._folder / f"{report.attempt}.jsonl"
        # a full disk must not lose the report itself, only its safety against a crash
        with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(protocol.dump(report)) + "\n")
            if report.kind == "finished":
                file.flush()
                os.fsync(file.fileno())

    def _queue(self, report: Report) -> None:
        last = self._waiting[-1] if self._waiting else None
        if self._join and last is not None and _joins(last, report):
            self._waiting[-1] = replace(last, text=(last.text or "") + (report.text or ""))
        else:
            self._waiting.append(report)

    def forget(self, attempt: str) -> None:
        """Drop what waits about an attempt: the server does not want it."""
        with self._change:
            self._waiting = deque(r for r in self._waiting if r.attempt != attempt)
            self._progress.pop(attempt, None)
            self._change.notify_all()
        (self._folder / f"{attempt}.jsonl").unlink(missing_ok=True)

    def take(self) -> tuple[Report, ...]:
        """Wait for reports and return the next batch; empty once the outbox is closed.

        The same batch comes again until `sent` is called.
        """
        with self._change:
            if self._sending:
                return self._sending
            self._change.wait_for(lambda: self._closed or self._waiting or self._progress)
            self._change.wait_for(lambda: self._closed or self._urgent, GATHER)
            self._sending = self._batch()
            self._urgent = bool(self._waiting)
            return self._sending

    def _batch(self) -> tuple[Report, ...]:
        batch: list[Report] = []
        text = 0
        while self._waiting and len(batch) < BATCH and text < BATCH_TEXT:
            report = self._waiting.popleft()
            batch.append(report)
            text += len(report.text or "")
        over = {report.attempt for report in batch if report.kind == "finished"}
        last = [r for attempt, r in self._progress.items() if attempt not in over]
        self._progress.clear()
        begun = [r for r in batch if r.kind != "finished"]
        return (*begun, *last, *(r for r in batch if r.kind == "finished"))

    def unheard(self) -> set[str]:
        """Return the attempts whose end the server does not know yet."""
        with self._change:
            waiting = (*self._waiting, *self._sending)
            return {report.attempt for report in waiting if report.kind == "finished"}

    def sent(self) -> None:
        """The batch taken last has arrived; forget it."""
        with self._change:
            done, self._sending = self._sending, ()
            self._change.notify_all()
        for report in done:
            if report.kind == "finished":
                (self._folder / f"{report.attempt}.jsonl").unlink(missing_ok=True)

    def empty(self, timeout: float) -> bool:
        """Wait until all has arrived."""
        with self._change:
            return self._change.wait_for(
                lambda: not self._waiting and not self._progress and not self._sending, timeout
            )

    def close(self) -> None:
        """Let `take` return: nobody sends any more."""
        with self._change:
            self._closed = True
            self._change.notify_all()


def _joins(last: Report, new: Report) -> bool:
    """Whether two pieces of log can travel as one."""
    return (
        (last.kind, last.attempt, last.stream) == (new.kind, new.attempt, new.stream)
        and new.kind == "log"
        and len(last.text or "") + len(new.text or "") <= PIECE
    )


def _read(path: Path) -> list[dict[str, Any]]:
    """Read what an earlier process kept; a last line cut short by a crash is left out."""
    reports = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(ValueError):
            reports.append(json.loads(line))
    return reports
