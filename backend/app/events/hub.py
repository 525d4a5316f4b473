"""Who follows what, in this process: committed events go in, followers wake up.

Nothing here is the truth: a follower that is offered too much, or misses something, reads the
table of events instead. No database, no network; all calls from the event loop's thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from backend.app.events import frames
from backend.scheduler.ports import PublishedEvent

MOST_BATCHES = 256  #: that wait for one follower; more, and it reads the table


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Consecutive events of one experiment; their frame is written once for all sockets."""

    experiment: str
    events: tuple[PublishedEvent, ...]

    @property
    def first(self) -> int:
        """Sequence number of the first event."""
        return self.events[0].seq

    @property
    def last(self) -> int:
        """Sequence number of the last event."""
        return self.events[-1].seq

    @cached_property
    def text(self) -> str:
        """The frame."""
        return frames.events(self.experiment, self.events)


@dataclass(slots=True, eq=False)
class Follower:
    """Somebody who follows one experiment."""

    batches: deque[Batch] = field(default_factory=deque)
    behind: bool = False  #: batches were dropped, or another process knows more
    cursor: int = 0  #: what it has passed on, as its owner notes
    _awake: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, batch: Batch) -> None:
        """Add what was committed."""
        if len(self.batches) >= MOST_BATCHES:
            self.batches.clear()
            self.behind = True
        self.batches.append(batch)
        self._awake.set()

    def hint(self) -> None:
        """Say that the table may hold more."""
        self.behind = True
        self._awake.set()

    async def wait(self) -> None:
        """Wait until something was offered or hinted."""
        await self._awake.wait()
        self._awake.clear()

    def next_after(self, cursor: int) -> Batch | None:
        """Return the batch that goes on right after `cursor`, dropping what is older.

        With nothing that fits, `behind` says whether to read the table.
        """
        while self.batches:
            batch = self.batches[0]
            if batch.last <= cursor:
                self.batches.popleft()
            elif batch.first == cursor + 1:
                return self.batches.popleft()
            else:
                self.behind = True
                return None
        return None


@dataclass(slots=True, eq=False)
class Hub:
    """The scheduler's Bus, and what sockets and long polls follow."""

    followers: dict[str, set[Follower]] = field(default_factory=dict)
    changed: dict[str, None] = field(default_factory=dict)  #: experiments, for those with lists
    outbox: dict[str, None] = field(default_factory=dict)  #: experiments, for other processes
    something_changed: asyncio.Event = field(default_factory=asyncio.Event)
    something_to_tell: asyncio.Event = field(default_factory=asyncio.Event)
    access_listeners: set[Callable[[], None]] = field(default_factory=set)
    _logs: dict[str, set[asyncio.Event]] = field(default_factory=dict)

    def publish(self, experiment: str, events: Sequence[PublishedEvent]) -> None:
        """Pass on committed events of one experiment, in order; does not block."""
        if not events:
            return
        batch = Batch(experiment=experiment, events=tuple(events))
        for follower in self.followers.get(experiment, ()):
            follower.offer(batch)
        self.note_change(experiment)
        self.tell_others(f"e{experiment}")

    def note_change(self, experiment: str) -> None:
        """Have the lists look at an experiment again."""
        self.changed[experiment] = None
        self.something_changed.set()

    def tell_others(self, message: str) -> None:
        """Have the other processes told: "e<experiment>", "l<attempt>" or "a"."""
        self.outbox[message] = None
        self.something_to_tell.set()

    def hear(self, message: str) -> None:
        """Take in what another process told."""
        kind, subject = message[:1], message[1:]
        if kind == "e":
            for follower in self.followers.get(subject, ()):
                follower.hint()
            self.note_change(subject)
        elif kind == "l":
            self._wake_log(subject)
        elif kind == "a":
            self._recheck_access()

    def look(self, experiment: str, last_seq: int | None) -> None:
        """Have followers look who stand elsewhere than where the table does (None: it is gone)."""
        for follower in self.followers.get(experiment, ()):
            if follower.cursor != last_seq:
                follower.hint()

    @contextmanager
    def following(self, experiment: str) -> Iterator[Follower]:
        """Follow an experiment; what is committed from now on is offered."""
        follower = Follower()
        self.followers.setdefault(experiment, set()).add(follower)
        try:
            yield follower
        finally:
            others = self.followers[experiment]
            others.discard(follower)
            if not others:
                del self.followers[experiment]

    def access_changed(self) -> None:
        """Say that somebody's rights, groups, sign-in or sharing changed: sockets look again."""
        self._recheck_access()
        self.tell_others("a")

    def _recheck_access(self) -> None:
        for listener in list(self.access_listeners):
            listener()

    def log_written(self, attempt: str) -> None:
        """Say that an attempt's log grew or ended."""
        self._wake_log(attempt)
        self.tell_others(f"l{attempt}")

    def _wake_log(self, attempt: str) -> None:
        for event in self._logs.get(attempt, ()):
            event.set()

    @contextmanager
    def following_log(self, attempt: str) -> Iterator[asyncio.Event]:
        """Give an event that is set when the attempt's log grows or ends."""
        event = asyncio.Event()
        self._logs.setdefault(attempt, set()).add(event)
        try:
            yield event
        finally:
            waiting = self._logs[attempt]
            waiting.discard(event)
            if not waiting:
                del self._logs[attempt]
