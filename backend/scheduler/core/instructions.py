"""What the core decides: plain data, carried out by the shell after one commit."""

from __future__ import annotations

from dataclasses import dataclass, field

from backend.scheduler.core import blocks, experiments
from backend.scheduler.core.events import Outcome
from backend.scheduler.core.model import Failure, Range, Right, WorkerState


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBlock:
    """A block changed state: a row update and an event that browsers see."""

    block: str
    experiment: str
    state: blocks.State
    reason: str | None = None
    failure: Failure | None = None
    attempt: str | None = None
    worker: str | None = None  #: its name


@dataclass(frozen=True, slots=True, kw_only=True)
class SetExperiment:
    """An experiment changed state: a row update and an event."""

    experiment: str
    state: experiments.State
    submitted_at: float | None = None  #: given with `pending`: the start of a new run


@dataclass(frozen=True, slots=True, kw_only=True)
class SetWorker:
    """A worker changed state."""

    worker: str
    state: WorkerState


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRights:
    """The scheduler now holds these rights for the user."""

    user: str
    rights: dict[str, Right]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPolicy:
    """The scheduler now orders the waiting jobs by this policy."""

    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSplit:
    """Find the ranges for a block that was given several slots; answer with Planned."""

    block: str
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitInto:
    """A block is these jobs."""

    block: str
    ranges: tuple[Range | None, ...]  #: None = the whole input


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A job goes to a worker, as this attempt."""

    attempt: str  #: "<block>.<index>.<number>"
    block: str
    experiment: str
    index: int  #: which of the block's jobs
    number: int  #: of the attempt, from 1
    range: Range | None  #: None = the whole input
    worker: str  #: its id


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """The process of an attempt has started."""

    attempt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoke:
    """Tell the worker to kill an attempt; its lease stays until that is confirmed or fenced."""

    attempt: str
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """A lease is over."""

    attempt: str
    outcome: Outcome | None  #: None: fenced, since its worker was lost
    failure: Failure | None = None
    details: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """An event that cannot hold (a stale report, a second start …): nothing changes."""

    why: str
    attempt: str | None = None
    worker: str | None = None
    experiment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """A deleted experiment has come to rest: its rows may go, the cache stays."""

    experiment: str


Instruction = (
    SetBlock
    | SetExperiment
    | SetWorker
    | SetRights
    | SetPolicy
    | PlanSplit
    | SplitInto
    | Lease
    | Begin
    | Revoke
    | Close
    | Refuse
    | Purge
)
