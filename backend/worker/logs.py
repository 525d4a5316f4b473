"""A job's output on its way to the server: decoded, numbered, and never more than the quota.

The first part is kept as it comes; once the quota is used up only the last part is held back, and
comes with a line that says how much is missing. A block that prints for ever fills no disk.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable

TAIL = 16 * 1024  #: bytes kept of the end of a log that was cut

Emit = Callable[[str, str], None]  #: (stream, text)


class LogKeeper:
    """Takes bytes of both streams in the order in which they come."""

    def __init__(self, emit: Emit, quota: int) -> None:
        self._emit = emit
        self._left = quota
        self._dropped = 0
        self._tail: deque[tuple[str, str]] = deque()
        self._tail_size = 0
        make = codecs.getincrementaldecoder("utf-8")
        self._decoders = {name: make(errors="replace") for name in ("stdout", "stderr")}

    def feed(self, stream: str, data: bytes, final: bool = False) -> None:
        """Take what a stream said; `final` when it says no more."""
        if self._left <= 0 and len(data) > TAIL:
            self._dropped += len(data) - TAIL
            data = data[-TAIL:]
        # PostgreSQL holds no NUL in a text
        text = self._decoders[stream].decode(data, final).replace("\0", "\ufffd")
        if not text:
            return
        if self._left > 0:
            self._left -= len(data)
            self._emit(stream, text)
        else:
            self._hold(stream, text)

    def _hold(self, stream: str, text: str) -> None:
        self._tail.append((stream, text))
        self._tail_size += len(text)
        while self._tail_size - len(self._tail[0][1]) >= TAIL:
            _, gone = self._tail.popleft()
            self._tail_size -= len(gone)
            self._dropped += len(gone)

    def close(self) -> None:
        """Say what is still held back."""
        for stream in self._decoders:
            self.feed(stream, b"", final=True)
        if self._dropped:
            self._emit("stderr", f"\n[gristmill: about {self._dropped} characters left out]\n")
        for stream, text in self._tail:
            self._emit(stream, text)
        self._tail.clear()
