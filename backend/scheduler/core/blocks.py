"""The life of a block, and nothing else. No clock, no database, no network."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a block stands; the words are those of the page, the API and the database."""

    BLOCKED = "blocked"  # waits for inputs
    QUEUED = "queued"  # waits for a slot
    ASSIGNED = "assigned"  # leased to a worker
    RUNNING = "running"  # the worker reported that the process started
    LOST = "lost"  # its worker went silent; will be queued again
    CANCELLING = "cancelling"  # until the process tree is gone or the lease is fenced
    DONE = "done"
    CACHED = "cached"  # done, from the cache
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"  # something upstream failed


FINAL = frozenset({State.DONE, State.CACHED, State.FAILED, State.CANCELLED, State.SKIPPED})
