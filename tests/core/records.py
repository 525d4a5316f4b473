"""What a store keeps of a farm's instructions, in memory: enough to restore the farm from.

It checks as it writes: each change of state must be a move that the life of the block or
experiment has, and a lease closes once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from backend.scheduler.core import blocks, experiments
from backend.scheduler.core.events import Event, QueueSet, Submitted, WorkerSet
from backend.scheduler.core.instructions import (
    Begin,
    Close,
    Instruction,
    Lease,
    Purge,
    Revoke,
    SetBlock,
    SetExperiment,
    SetPolicy,
    SetRights,
    SetWorker,
    SplitInto,
)
from backend.scheduler.core.model import RETRIED, BlockSpec, Failure, Queue, Right, Worker
from backend.scheduler.core.snapshot import (
    RecentUse,
    SavedBlock,
    SavedExperiment,
    SavedJob,
    SavedLease,
    Snapshot,
)


@dataclass
class Attempt:
    lease: Lease
    leased_at: float
    started: bool = False
    revoked: bool = False
    closed: Close | None = None


@dataclass
class Row:
    spec: BlockSpec
    state: blocks.State = blocks.State.BLOCKED
    queued_at: float | None = None
    failure: Failure | None = None
    ranges: tuple[tuple[int, int] | None, ...] = ()
    attempts: list[Attempt] = field(default_factory=list)


@dataclass
class Records:
    queues: dict[str, Queue] = field(default_factory=dict)
    workers: dict[str, Worker] = field(default_factory=dict)
    rights: dict[str, dict[str, Right]] = field(default_factory=dict)
    policy: str = "fifo"
    submissions: dict[str, Submitted] = field(default_factory=dict)
    states: dict[str, experiments.State] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    cache: set[str] = field(default_factory=set)

    def before(self, event: Event) -> None:
        """What the application writes before it tells the scheduler."""
        match event:
            case QueueSet(queue=queue):
                self.queues[queue.id] = queue
            case WorkerSet(worker=worker):
                self.workers[worker.id] = worker
            case Submitted(submission=submission):
                name = submission.experiment
                if self.states.get(name) not in experiments.LIVE:
                    self.states.setdefault(name, experiments.State.DRAFT)
                    self.submissions[name] = event
                    self.rows |= {spec.id: Row(spec) for spec in submission.blocks}
            case _:
                pass

    def write(self, instructions: Iterable[Instruction], now: float) -> None:
        for instruction in instructions:
            self._write(instruction, now)

    def _write(self, instruction: Instruction, now: float) -> None:
        match instruction:
            case SetBlock(block=block, state=state):
                row = self.rows[block]
                same = state is row.state and instruction.failure is not None
                moves = _reachable(blocks.TRANSITIONS, row.state)
                assert same or state in moves, (row.state, state)
                row.state = state
                row.failure = instruction.failure
                if state is blocks.State.QUEUED:
                    row.queued_at = now
                if state is blocks.State.DONE:
                    self.cache.add(row.spec.key)
            case SetExperiment(experiment=name, state=state):
                old = self.states[name]
                assert state in _reachable(experiments.TRANSITIONS, old), (old, state)
                self.states[name] = state
            case SetWorker(worker=name, state=state):
                worker = self.workers[name]
                self.workers[name] = Worker(
                    id=worker.id,
                    name=worker.name,
                    cores=worker.cores,
                    memory_mb=worker.memory_mb,
                    environments=worker.environments,
                    state=state,
                    shares=worker.shares,
                )
            case SetRights(user=user, rights=rights):
                self.rights[user] = dict(rights)
            case SetPolicy(policy=policy):
                self.policy = policy
            case SplitInto(block=block, ranges=ranges):
                self.rows[block].ranges = ranges
            case Lease(attempt=name, block=block):
                assert name not in self.attempts, f"{name} was leased twice"
                attempt = self.attempts[name] = Attempt(instruction, now)
                self.rows[block].attempts.append(attempt)
            case Begin(attempt=name):
                assert not self.attempts[name].started
                self.attempts[name].started = True
            case Revoke(attempt=name):
                self.attempts[name].revoked = True
            case Close(attempt=name):
                assert self.attempts[name].closed is None, f"{name} was closed twice"
                self.attempts[name].closed = instruction
            case Purge(experiment=name):
                for spec in self.submissions[name].submission.blocks:
                    for attempt in self.rows.pop(spec.id).attempts:
                        assert attempt.closed, f"{attempt} goes with its experiment, still open"
                        del self.attempts[attempt.lease.attempt]
                del self.states[name]
            case _:
                pass

    def snapshot(self, recent_use: Iterable[RecentUse] = ()) -> Snapshot:
        live = [name for name, state in self.states.items() if state in experiments.LIVE]
        saved = tuple(self._experiment(name) for name in live)
        waiting = {
            block.spec.key
            for experiment in saved
            for block in experiment.blocks
            if block.state in (blocks.State.BLOCKED, blocks.State.QUEUED)
        }
        return Snapshot(
            queues=tuple(self.queues.values()),
            workers=tuple(self.workers.values()),
            rights=self.rights,
            policy=self.policy,
            experiments=saved,
            leases=tuple(_open(a) for a in self.attempts.values() if a.closed is None),
            cached=frozenset(waiting & self.cache),
            recent_use=tuple(recent_use),
        )

    def _experiment(self, name: str) -> SavedExperiment:
        submission = self.submissions[name].submission
        saved = tuple(self._block(self.rows[spec.id]) for spec in submission.blocks)
        return SavedExperiment(submission=submission, state=self.states[name], blocks=saved)

    def _block(self, row: Row) -> SavedBlock:
        cut = bool(row.ranges or row.attempts)
        ranges = row.ranges or (None,)  # tried, and never cut: whole
        return SavedBlock(
            spec=row.spec,
            state=row.state,
            jobs=tuple(_job(row, i, r) for i, r in enumerate(ranges)) if cut else (),
            cut=cut,
            queued_at=row.queued_at,
            doom=row.failure if row.state not in blocks.FINAL else None,
        )


def _reachable(transitions: dict[tuple[object, object], object], state: object) -> set[object]:
    return {b for (a, _), b in transitions.items() if a == state}


def _job(row: Row, index: int, range_: tuple[int, int] | None) -> SavedJob:
    attempts = [a for a in row.attempts if a.lease.index == index]
    return SavedJob(
        index=index,
        range=range_,
        done=any(a.closed and a.closed.outcome == "done" for a in attempts),
        number=max((a.lease.number for a in attempts), default=0),
        failures=sum(_counts(a.closed) for a in attempts if a.closed),
    )


def _counts(close: Close) -> bool:
    return close.failure is not None and close.failure.kind in RETRIED


def _open(attempt: Attempt) -> SavedLease:
    lease = attempt.lease
    return SavedLease(
        attempt=lease.attempt,
        block=lease.block,
        index=lease.index,
        number=lease.number,
        worker=lease.worker,
        leased_at=attempt.leased_at,
        started=attempt.started,
        revoked=attempt.revoked,
    )
