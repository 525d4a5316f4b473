"""From instructions to rows: one change for each block and experiment, and the events of it.

Pure. A block that goes through several states in one commit is updated once, to the last; every
state on the way is an event.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from backend.scheduler.core import blocks, experiments
from backend.scheduler.core.events import Outcome
from backend.scheduler.core.instructions import (
    Begin,
    Close,
    Instruction,
    Lease,
    PlanSplit,
    Purge,
    Refuse,
    Revoke,
    SetBlock,
    SetExperiment,
    SetPolicy,
    SetRights,
    SetWorker,
    SplitInto,
)
from backend.scheduler.core.model import Failure, Right

BlockState = blocks.State


@dataclass(slots=True)
class BlockChange:
    """What becomes of a block's row."""

    state: blocks.State
    reason: str | None = None
    failure: Failure | None = None
    worker: str | None = None  #: None: as before; "": nobody
    requeued: bool = False
    queued: bool = False
    started: bool = False


@dataclass(slots=True)
class ExperimentChange:
    """What becomes of an experiment's row."""

    state: experiments.State | None = None
    submitted_at: float | None = None
    started: bool = False
    events: list[EventDraft] = field(default_factory=list)


@dataclass(slots=True)
class EventDraft:
    """An event without its sequence number; `block` is an id."""

    kind: str
    block: str | None
    details: dict[str, object]


@dataclass(slots=True)
class Rows:
    """All that one commit writes."""

    time: str  #: of the commit, as events say it
    blocks: dict[str, BlockChange] = field(default_factory=dict)
    experiments: dict[str, ExperimentChange] = field(default_factory=dict)
    workers: dict[str, str] = field(default_factory=dict)
    rights: dict[str, dict[str, Right]] = field(default_factory=dict)
    policy: str | None = None
    splits: list[SplitInto] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)
    closes: list[Close] = field(default_factory=list)
    purged: list[str] = field(default_factory=list)
    results: dict[str, object] = field(default_factory=dict)  #: of analyzers, by block

    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not any(getattr(self, name) for name in self.__dataclass_fields__ if name != "time")

    def in_state(self, state: BlockState) -> list[str]:
        """Return the blocks that end up in a state."""
        return [name for name, change in self.blocks.items() if change.state is state]


def rfc3339(seconds: float) -> str:
    """Return a time as the API gives it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def rows_of(instructions: Iterable[Instruction], now: float) -> Rows:
    """Gather what instructions write."""
    rows = Rows(time=rfc3339(now))
    for instruction in instructions:
        _add(rows, instruction)
    return rows


def _add(rows: Rows, instruction: Instruction) -> None:
    match instruction:
        case SetBlock():
            _set_block(rows, instruction)
        case SetExperiment():
            _set_experiment(rows, instruction)
        case Lease():
            rows.leases.append(instruction)
        case Begin(attempt=attempt):
            rows.begun.append(attempt)
        case Close():
            _close(rows, instruction)
        case Revoke(attempt=attempt):
            rows.revoked.append(attempt)
        case SetWorker(worker=worker, state=state):
            rows.workers[worker] = str(state)
        case SetRights(user=user, rights=rights):
            rows.rights[user] = rights
        case SetPolicy(policy=policy):
            rows.policy = policy
        case SplitInto():
            rows.splits.append(instruction)
        case Purge(experiment=experiment):
            rows.purged.append(experiment)
        case PlanSplit() | Refuse():
            pass


def _set_block(rows: Rows, instruction: SetBlock) -> None:
    change = rows.blocks.setdefault(instruction.block, BlockChange(instruction.state))
    change.state = instruction.state
    change.reason, change.failure = instruction.reason, instruction.failure
    if instruction.worker is not None:
        change.worker = instruction.worker
    details: dict[str, object] = {"state": str(instruction.state)}
    match instruction.state:
        case blocks.State.QUEUED:
            change.queued = change.requeued = True
            change.started, change.worker = False, ""
            details |= {"queued_at": rows.time, "started_at": None, "worker": None}
        case blocks.State.RUNNING if instruction.failure is None:
            change.started = True
            details["started_at"] = rows.time
        case state if state in blocks.FINAL:
            details["finished_at"] = rows.time
        case _:
            pass
    details |= _told(instruction)
    _event(rows, instruction.experiment, EventDraft("block", instruction.block, details))


def _told(instruction: SetBlock) -> dict[str, object]:
    """Return what an event says besides the state; a trace is read with the block."""
    failure = instruction.failure
    told = {
        "reason": instruction.reason,
        "failure": {"kind": str(failure.kind), "message": failure.message} if failure else None,
        "attempt": instruction.attempt,
        "worker": instruction.worker,
    }
    return {name: value for name, value in told.items() if value is not None}


def _set_experiment(rows: Rows, instruction: SetExperiment) -> None:
    change = rows.experiments.setdefault(instruction.experiment, ExperimentChange())
    change.state = instruction.state
    if instruction.submitted_at is not None:
        change.submitted_at = instruction.submitted_at
    if instruction.state is experiments.State.RUNNING:
        change.started = True
    draft = EventDraft("experiment", None, {"state": str(instruction.state)})
    change.events.append(draft)


def _event(rows: Rows, experiment: str, draft: EventDraft) -> None:
    rows.experiments.setdefault(experiment, ExperimentChange()).events.append(draft)


def _close(rows: Rows, close: Close) -> None:
    rows.closes.append(close)
    results = close.details.get("results")
    if close.outcome is Outcome.DONE and results is not None:
        rows.results[close.attempt.partition(".")[0]] = results


def failure_document(failure: Failure | None) -> dict[str, Any] | None:
    """Return a failure as it is stored."""
    if failure is None:
        return None
    return {"kind": str(failure.kind), "message": failure.message, "trace": failure.trace}


def statistics_document(close: Close) -> dict[str, Any] | None:
    """Return what an attempt took and made, as it is stored with it."""
    usage = close.details.get("usage")
    if not isinstance(usage, dict):
        return None
    return {
        **usage,
        "exit_code": close.details.get("exit_code"),
        "outputs": close.details.get("outputs") or [],
    }
