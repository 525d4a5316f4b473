"""What may happen to the farm: the only way in which the core learns anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from backend.scheduler.core.model import (
    Failure,
    Queue,
    Range,
    Right,
    Submission,
    Worker,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSet:
    """A queue was made or changed."""

    queue: Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRemoved:
    """A queue was deleted; nothing uses it (the caller made sure)."""

    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSet:
    """A worker registered, came back, or was changed (state, shares, environments)."""

    worker: Worker
    #: given at a registration only: the attempts it still runs; its other leases are fenced
    running: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHeard:
    """A worker that was lost speaks again under its old registration."""

    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLost:
    """A worker has been silent for longer than its lease; its attempts are fenced."""

    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRemoved:
    """A worker was deleted; nothing runs on it (the caller made sure)."""

    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RightsSet:
    """An administrator changed what a user may hold; holds from the next pass."""

    user: str
    rights: dict[str, Right]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySet:
    """An administrator chose another policy; holds from the next pass."""

    policy: str  #: "fifo", "priority", "fair-share", or a name of the farm's own policies


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A user started an experiment."""

    submission: Submission
    cached: frozenset[str] = frozenset()  #: those keys of its blocks that the cache holds now


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Somebody stopped an experiment; one that is not live is refused."""

    experiment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AllStopped:
    """An administrator stopped every live experiment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """Somebody deleted an experiment, running or not; it is stopped first."""

    experiment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The answer to a PlanSplit: the ranges into which the block's input can be cut."""

    block: str
    ranges: tuple[Range, ...]  #: disjoint, in order; may be fewer than asked; empty = do not cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The worker started the process of an attempt."""

    attempt: str
    worker: str


class Outcome(StrEnum):
    """How an attempt ended."""

    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"  # its process tree is gone, as we asked
    RETURNED = "returned"  # handed back unfinished by a worker that drains


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The worker says that an attempt is over, its process tree gone and its outputs stored."""

    attempt: str
    worker: str
    outcome: Outcome
    failure: Failure | None = None
    details: dict[str, object] = field(default_factory=dict)  #: passed through to the store


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLost:
    """Entries left the cache: blocks that were to use them run instead."""

    keys: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """Time passed; nothing else happened."""


Event = (
    QueueSet
    | QueueRemoved
    | WorkerSet
    | WorkerHeard
    | WorkerLost
    | WorkerRemoved
    | RightsSet
    | PolicySet
    | Submitted
    | Stopped
    | AllStopped
    | Deleted
    | Planned
    | Started
    | Finished
    | CacheLost
    | Ticked
)
