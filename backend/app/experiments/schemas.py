"""What goes over the wire about experiments. Times are UTC, durations seconds, sizes bytes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from backend.app.problems import Place
from backend.scheduler.core import blocks, experiments
from backend.scheduler.core.events import Outcome
from backend.scheduler.core.model import BlockKind, FailureKind

Name = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        description="letters, digits, `_`, `.` and `-`; begins with a letter, a digit or `_`",
    ),
]
Visibility = Literal["private", "shared", "public"]
Document = dict[str, Any]


class In(BaseModel):
    """What comes in: unknown fields are errors, not silence."""

    model_config = ConfigDict(extra="forbid")


class ExperimentIn(In):
    """A new experiment: a toolchain and its configuration in BEAT's form."""

    name: Name
    toolchain: str = Field(max_length=250, description="author/name/version")
    declaration: Document = Field(description="BEAT's experiment form")
    description: str = Field(default="", max_length=10_000, description="Markdown")
    visibility: Visibility = "private"


class ExperimentPatch(In):
    """What to change; `declaration` only while nothing of the experiment runs."""

    name: Name | None = None
    description: str | None = Field(default=None, max_length=10_000)
    visibility: Visibility | None = None
    declaration: Document | None = None


class ForkIn(In):
    """How to call the copy; without a name, one is made from the original's."""

    name: Name | None = None


class PlannedBlock(BaseModel):
    """What would become of a block if the experiment were started now."""

    name: str
    key: str
    cached: bool


class Validation(BaseModel):
    """Whether an experiment could be created, and what would come from the cache."""

    ok: bool
    problems: list[Place]
    blocks: list[PlannedBlock]


class RightUsed(BaseModel):
    """What the scheduler holds for the experiment's owner on one of its queues."""

    queue_id: UUID
    queue: str
    slots: int
    priority: int


class ExperimentSummary(BaseModel):
    """One line of the list."""

    id: UUID
    name: str
    owner: str
    toolchain: str
    state: experiments.State
    visibility: Visibility
    description: str
    created_at: datetime
    submitted_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    counts: dict[blocks.State, int] = Field(description="number of blocks in each state")
    last_seq: int
    revision: int


class Experiment(ExperimentSummary):
    """An experiment in full."""

    declaration: Document
    toolchain_declaration: Document
    rights: list[RightUsed]
    forked_from: UUID | None
    groups: list[UUID] = Field(description="that it is shared with; for those who may change it")
    mine: bool = Field(description="whether the reader may change it")


class ExperimentList(BaseModel):
    """A page of experiments, newest first."""

    items: list[ExperimentSummary]
    next: str | None


class BlockFailure(BaseModel):
    """Why a block, or an attempt at it, failed."""

    kind: FailureKind
    message: str
    trace: str | None = None


class BlockState(BaseModel):
    """A block as it stands."""

    id: UUID
    name: str
    kind: BlockKind
    state: blocks.State
    reason: str | None
    failure: BlockFailure | None
    progress: float | None = Field(description="0 to 1")
    worker: str | None
    queue: str
    queue_id: UUID
    environment: str = Field(description="name/version")
    slots: int
    algorithm: str = Field(description="author/name/version, or database/version/protocol/set")
    inputs: list[str] = Field(description="names of the blocks it reads")
    attempt: int | None = Field(description="number of its newest attempt")
    queued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None


class Snapshot(BaseModel):
    """Everything that a page draws, as of one event."""

    as_of_seq: int
    experiment: Experiment
    blocks: list[BlockState]


class Event(BaseModel):
    """Something that happened to an experiment; `seq` is dense."""

    seq: int
    time: datetime
    kind: str = Field(description='"experiment", "block", "progress" or "deleted"')
    block: str | None
    details: Document


class EventPage(BaseModel):
    """Events after a sequence number; `ended` when nothing more will come in this run."""

    events: list[Event]
    last_seq: int
    ended: bool


class Result(BaseModel):
    """A result of an analyzer: `type` says how to show `value`."""

    type: str
    value: Any
    display: bool = True


class AnalyzerResults(BaseModel):
    """What one analyzer found."""

    block: str
    results: dict[str, Result]


class Results(BaseModel):
    """What the analyzers found, in the order of the toolchain."""

    analyzers: list[AnalyzerResults]


class BlockAttempt(BaseModel):
    """A lease of one of the block's jobs to a worker."""

    id: str
    number: int
    index: int = Field(description="which of the jobs that the block was split into")
    worker: str
    outcome: Outcome | None = Field(
        description="none while it is open, or when its worker was lost"
    )
    failure: BlockFailure | None
    leased_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    statistics: Document | None


class BlockOutput(BaseModel):
    """An output of a finished block."""

    name: str
    format: str
    rows: int
    size: int


class Explanation(BaseModel):
    """Why a block does not run, in one sentence, and the numbers behind it."""

    block: str
    constraint: str
    message: str
    numbers: Document
    would_start: str | None = None


class BlockDetail(BlockState):
    """A block with its parameters, its attempts and what it wrote."""

    parameters: Document
    statistics: Document | None
    key: str
    cached: bool
    attempts: list[BlockAttempt]
    outputs: list[BlockOutput]
    explanation: Explanation | None


class StoryLine(BaseModel):
    """One line of what happened to a block."""

    time: datetime
    text: str


class Story(BaseModel):
    """What happened to a block, in order."""

    block: str
    lines: list[StoryLine]


class LogPiece(BaseModel):
    """A stretch of output."""

    stream: Literal["stdout", "stderr", "system"]
    text: str
    start: int = Field(description="characters before it in the attempt's log")


class LogPage(BaseModel):
    """The log of one attempt from `offset` on."""

    attempt: str | None = Field(description="none when the block has not been tried yet")
    offset: int
    next: int = Field(description="the offset to ask for next")
    pieces: list[LogPiece]
    complete: bool = Field(description="nothing more will come")


class PreviewItem(BaseModel):
    """One data unit of an output; long arrays and texts are cut short."""

    start: int
    end: int
    value: Any


class OutputPreview(BaseModel):
    """Some data units of an output."""

    format: str
    rows: int
    items: list[PreviewItem]
