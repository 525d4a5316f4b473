"""What the job tells the worker while it runs: that it started, and how far it is."""

from __future__ import annotations

import json
import os
import time
from typing import Any

INTERVAL = 0.1  #: seconds between two progress messages, at least


class Messages:
    """Writes JSON lines to a file descriptor; silent without one, or once nobody listens."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._told = float("-inf")

    def started(self) -> None:
        """Say that the job runs."""
        self._send({"kind": "started"})

    def progress(self, fraction: float, message: str | None = None) -> None:
        """Say how much is done (0 to 1); what comes too soon after the last is left out."""
        now = time.monotonic()
        if message is None and now - self._told < INTERVAL:
            return
        self._told = now
        said = {"kind": "progress", "fraction": round(min(1.0, max(0.0, float(fraction))), 6)}
        self._send(said if message is None else {**said, "message": str(message)[:1000]})

    def _send(self, message: dict[str, Any]) -> None:
        if self._descriptor is None:
            return
        try:
            os.write(self._descriptor, json.dumps(message).encode() + b"\n")
        except OSError:
            self._descriptor = None


#: of the job that runs in this process; `gristmill.runtime.progress` speaks through it
current = Messages(None)


def listen(descriptor: int | None) -> Messages:
    """Let this process's messages go to `descriptor`."""
    global current
    current = Messages(descriptor)
    return current
