"""The things that the core reasons about, as plain frozen values.

Ids are opaque strings given from outside; the core makes only attempt ids, and these it derives.
Times are seconds since the epoch, durations seconds, memory MiB.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

Environment = tuple[str, str]  #: (name, version)
Range = tuple[int, int]  #: data units of the synchronised channel, both ends included


class WorkerState(StrEnum):
    """What the farm may ask of a worker."""

    ONLINE = "online"
    DRAINING = "draining"  # finishes what it runs, gets nothing new
    OFFLINE = "offline"  # said goodbye
    LOST = "lost"  # silent for longer than its lease


class BlockKind(StrEnum):
    """What a block of a toolchain is."""

    DATASET = "dataset"  # a source: runs a database view
    BLOCK = "block"
    ANALYZER = "analyzer"  # writes results, no outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """What one user may hold of one queue."""

    slots: int
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue as the scheduler needs it."""

    id: str
    name: str
    memory_mb: int  #: limit of one slot
    time_seconds: int  #: limit of one job
    slots_per_worker: int  #: at most, on every worker, where no slot share says otherwise
    cores_per_slot: int
    environments: frozenset[Environment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker as the scheduler needs it."""

    id: str
    name: str
    cores: int
    memory_mb: int
    environments: frozenset[Environment]
    state: WorkerState = WorkerState.ONLINE
    shares: dict[str, int] = field(default_factory=dict)  #: queue id -> slots, overrides the queue


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSpec:
    """One block of a submitted experiment: what to run, and after which others."""

    id: str
    name: str
    kind: BlockKind
    inputs: tuple[str, ...]  #: ids of the blocks whose outputs it reads
    queue: str
    environment: Environment
    slots: int  #: into how many jobs it may be split; 1 unless the algorithm is splittable
    key: str  #: of its outputs in the cache
    attempts_before: int = 0  #: attempts of earlier runs of the experiment; numbering goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What the web hands to the scheduler: toolchain and configuration, user, rights."""

    experiment: str
    user: str
    rights: dict[str, Right]  #: queue id -> right, of all queues the user may use
    blocks: tuple[BlockSpec, ...]  #: in topological order
    submitted_at: float


class FailureKind(StrEnum):
    """Why a job failed; the last three are nobody's code's fault and are tried again."""

    ALGORITHM = "algorithm error"
    TIME_LIMIT = "time limit"
    MEMORY_LIMIT = "memory limit"
    CRASHED = "crashed"  # ended by a signal or exit that nobody ordered
    BAD_OUTPUT = "bad output"  # exit 0, but outputs missing or untrue
    ENVIRONMENT = "environment unavailable"
    WORKER = "worker error"  # disk full, input fetch failed …
    LOST = "worker lost"


RETRIED = frozenset({FailureKind.ENVIRONMENT, FailureKind.WORKER, FailureKind.LOST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The reason of a failure, as the user will read it."""

    kind: FailureKind
    message: str
    trace: str | None = None
