"""What the server tells, as values. What a newer server adds is in `raw` and breaks nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from typing import Any, TypeVar

Json = Mapping[str, Any]
Told = TypeVar("Told", bound="Model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Something that the server told; `raw` is all of it."""

    raw: Json = field(default_factory=dict, repr=False, compare=False)


def read(kind: type[Told], told: Json) -> Told:
    """Return what a JSON object says, as one of the models.

    Times (`time`, `…_at`) become datetimes. Raises KeyError where something needed is missing.
    """
    values: dict[str, Any] = {"raw": told}
    for one in fields(kind):
        if one.name in told:
            values.setdefault(one.name, _value(one.name, told[one.name]))
        elif one.name != "raw" and one.default is MISSING and one.default_factory is MISSING:
            raise KeyError(f"the server's answer has no {one.name!r}")
    return kind(**values)


def _value(name: str, value: Any) -> Any:
    if isinstance(value, str) and (name == "time" or name.endswith("_at")):
        return datetime.fromisoformat(value)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class User(Model):
    """A user."""

    id: str
    username: str
    email: str = ""
    admin: bool = False
    active: bool = True
    reputation: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalToken(Model):
    """A personal token; `token` is its secret, told once."""

    id: str
    name: str
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsableQueue(Model):
    """A queue that the user has a right to."""

    id: str
    name: str
    memory_mb: int
    time_limit_seconds: int
    slots: int
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(Model):
    """An experiment."""

    id: str
    name: str
    owner: str
    toolchain: str
    state: str
    counts: dict[str, int] = field(default_factory=dict)  #: blocks in each state
    description: str = ""
    visibility: str = "private"
    created_at: datetime | None = None
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    last_seq: int = 0
    revision: int = 1

    @property
    def ended(self) -> bool:
        """Whether it rests: nothing of it runs, or will run unless it is started."""
        return self.state not in RUNNING


RUNNING = frozenset({"pending", "running", "cancelling", "deleting"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Block(Model):
    """A block of an experiment."""

    name: str
    kind: str
    state: str
    reason: str | None = None
    failure: Json | None = None
    progress: float | None = None
    worker: str | None = None
    queue: str = ""
    environment: str = ""
    slots: int = 1
    algorithm: str = ""
    queued_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(Model):
    """An experiment and its blocks as of one event."""

    as_of_seq: int
    experiment: Experiment
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Model):
    """Something that happened to an experiment."""

    seq: int
    time: datetime
    kind: str  #: "experiment", "block", "progress" or "deleted"
    block: str | None = None
    details: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Model):
    """A result of an analyzer; `type` says what `value` is."""

    type: str
    value: Any
    display: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzerResults(Model):
    """What an analyzer found, by name."""

    block: str
    results: dict[str, Result]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Model):
    """Why a block does not run."""

    block: str
    constraint: str
    message: str
    numbers: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation(Model):
    """Whether an experiment could be created."""

    ok: bool
    problems: list[dict[str, Any]] = field(default_factory=list)
    blocks: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPiece(Model):
    """A stretch of a block's output."""

    stream: str
    text: str
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What became of a folder's declarations on the server; references by outcome."""

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()


def snapshot(told: Json) -> Snapshot:
    """Return a snapshot with its parts."""
    return Snapshot(
        raw=told,
        as_of_seq=told["as_of_seq"],
        experiment=read(Experiment, told["experiment"]),
        blocks=tuple(read(Block, block) for block in told["blocks"]),
    )


def analyzers(told: Json) -> list[AnalyzerResults]:
    """Return what each analyzer found."""
    return [
        AnalyzerResults(
            raw=one,
            block=one["block"],
            results={name: read(Result, result) for name, result in one["results"].items()},
        )
        for one in told["analyzers"]
    ]
