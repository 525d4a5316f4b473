"""What the scheduler needs from outside: Protocols, and the values that pass through them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from backend.scheduler.core.instructions import Instruction
from backend.scheduler.core.model import Range
from backend.scheduler.core.snapshot import RecentUse, Snapshot
from backend.scheduler.core.story import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedEvent:
    """An event as it was written: `seq` is dense within the experiment."""

    experiment: str
    seq: int
    time: float  #: seconds since the epoch
    kind: str  #: "experiment", "block", "progress" or "deleted"
    block: str | None  #: name
    details: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a running attempt says it is."""

    attempt: str
    fraction: float  #: 0 to 1
    message: str = ""


class MissingFromCacheError(Exception):
    """Blocks were to be taken from the cache, which has lost their entries meanwhile."""

    def __init__(self, keys: frozenset[str]) -> None:
        super().__init__(f"{len(keys)} cache entries are gone: {', '.join(sorted(keys))}")
        self.keys = keys


class LeadershipLostError(Exception):
    """Another process schedules now, or nobody can tell: this one must not commit."""


class Store(Protocol):
    """Where decisions become durable."""

    async def load(self) -> Snapshot:
        """Read what is live, and only that."""
        ...

    async def commit(self, instructions: Sequence[Instruction], now: float) -> list[PublishedEvent]:
        """Write the instructions in one transaction, all or none; return the events of it."""
        ...

    async def progress(self, reports: Sequence[Progress], now: float) -> list[PublishedEvent]:
        """Write progress reports, which a crash may lose; those of closed attempts fall away."""
        ...

    async def remember(self, seen: Mapping[str, float], recent_use: Sequence[RecentUse]) -> None:
        """Keep what is nice to have after a restart: when workers were heard, fair-share's use."""
        ...

    async def history(self, block: str) -> list[Line]:
        """Return the story of a block as far as it was written down; empty if unknown."""
        ...


class Bus(Protocol):
    """Where browsers hear of events; called only after their commit."""

    def publish(self, experiment: str, events: Sequence[PublishedEvent]) -> None:
        """Pass on events of one experiment, in order; must not block."""
        ...


class Splitter(Protocol):
    """Who knows the data units of the cache."""

    async def plan(self, block: str, slots: int) -> Sequence[Range]:
        """Return at most `slots` disjoint ranges, in order, that cover the block's input.

        Cut only where all synchronised inputs have a common start. Empty: do not cut.
        """
        ...


class Leadership(Protocol):
    """One process schedules at a time."""

    async def acquire(self) -> None:
        """Wait until this process may schedule."""
        ...

    async def check(self) -> None:
        """Raise LeadershipLostError when this process may not schedule any more."""
        ...

    async def release(self) -> None:
        """Let another process have it."""
        ...


class Clock(Protocol):
    """Time, given in so that tests make it."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...


class SystemClock:
    """The machine's time."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class AlwaysLeader:
    """For one process alone (tests, simulations)."""

    async def acquire(self) -> None:
        return

    async def check(self) -> None:
        return

    async def release(self) -> None:
        return
