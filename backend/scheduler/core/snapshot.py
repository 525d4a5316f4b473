"""What is live, as plain values: what a farm is restored from after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from backend.scheduler.core import blocks, experiments
from backend.scheduler.core.model import BlockSpec, Failure, Queue, Range, Right, Submission, Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedJob:
    """One job of a block, and how often it was tried."""

    index: int
    range: Range | None = None
    done: bool = False
    number: int = 0  #: of its latest attempt; 0 = none yet
    failures: int = 0  #: attempts of this run that count against `max_attempts`


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedBlock:
    """A block of a live experiment, final or not."""

    spec: BlockSpec
    state: blocks.State
    jobs: tuple[SavedJob, ...] = ()  #: empty: not cut yet, or never tried
    cut: bool = False  #: its ranges are settled (job rows exist, or it was tried whole)
    queued_at: float | None = None
    doom: Failure | None = None  #: it fails with this once its revoked attempts are gone


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedExperiment:
    """A live experiment."""

    submission: Submission
    state: experiments.State
    blocks: tuple[SavedBlock, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedLease:
    """An attempt that is open."""

    attempt: str
    block: str
    index: int
    number: int
    worker: str
    leased_at: float
    started: bool = False
    revoked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentUse:
    """What a user took of a queue lately, for fair-share: slot-seconds decayed to `at`."""

    user: str
    queue: str
    slot_seconds: float
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything that the scheduler must know to go on."""

    queues: tuple[Queue, ...] = ()
    workers: tuple[Worker, ...] = ()
    rights: Mapping[str, Mapping[str, Right]] = field(default_factory=dict)  #: user -> queue
    policy: str = "fifo"
    experiments: tuple[SavedExperiment, ...] = ()
    leases: tuple[SavedLease, ...] = ()
    cached: frozenset[str] = frozenset()  #: keys of waiting blocks that the cache holds
    recent_use: tuple[RecentUse, ...] = ()
