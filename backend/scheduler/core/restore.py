"""A farm from what was written down: the same code at every start and after a failed commit."""

from __future__ import annotations

from backend.scheduler.core import blocks, decide, experiments, use
from backend.scheduler.core.instructions import Close, Instruction
from backend.scheduler.core.ledgers import OpenLease
from backend.scheduler.core.live import Block, Experiment, Job, Live
from backend.scheduler.core.model import Failure, FailureKind
from backend.scheduler.core.snapshot import (
    SavedBlock,
    SavedExperiment,
    SavedLease,
    Snapshot,
)

State = blocks.State
_REMOVED = Failure(kind=FailureKind.LOST, message="its worker was removed")


def restore(live: Live, snapshot: Snapshot, now: float, out: list[Instruction]) -> None:
    """Fill an empty live state; what had been left undone is done, as instructions."""
    _restore_farm(live, snapshot)
    by_age = sorted(
        snapshot.experiments,
        key=lambda saved: (saved.submission.submitted_at, saved.submission.experiment),
    )
    for saved in by_age:
        _restore_experiment(live, saved)
    for lease in snapshot.leases:
        _restore_lease(live, lease, out)
    _name_flights(live)
    for experiment in tuple(live.experiments.values()):
        _mend(live, experiment, snapshot.cached, now, out)


def _restore_farm(live: Live, snapshot: Snapshot) -> None:
    for queue in snapshot.queues:
        live.queues[queue.id] = queue
    for worker in snapshot.workers:
        live.set_worker(worker)
    live.rights = {user: dict(rights) for user, rights in snapshot.rights.items()}
    for spent in snapshot.recent_use:
        account = live.account(spent.queue, spent.user)
        account.use = use.add(use.NONE, spent.slot_seconds, spent.at)


def _restore_experiment(live: Live, saved: SavedExperiment) -> None:
    experiment = live.admit(saved.submission)
    experiment.state = saved.state
    for block, as_saved in zip(experiment.blocks, saved.blocks, strict=True):
        _restore_block(live, block, as_saved)


def _restore_block(live: Live, block: Block, saved: SavedBlock) -> None:
    block.state = saved.state
    block.queued_at = saved.queued_at if saved.queued_at is not None else 0.0
    block.doom = saved.doom
    if block.is_final():
        live.retire(block)
        return
    if saved.cut:
        for job in saved.jobs:
            block.jobs.append(live.new_job(block, job.index, job.range))
            restored = block.jobs[-1]
            restored.number = max(restored.number, job.number)
            restored.failures = job.failures
            restored.done = job.done


def _restore_lease(live: Live, saved: SavedLease, out: list[Instruction]) -> None:
    block, site = live.blocks[saved.block], live.sites.get(saved.worker)
    job = _job(live, block, saved.index)
    job.number = max(job.number, saved.number)
    if site is None:
        out.append(Close(attempt=saved.attempt, outcome=None, failure=_REMOVED))
        return
    queue = live.queues[block.spec.queue]
    lease = OpenLease(
        attempt=saved.attempt,
        job=job,
        site=site,
        account=live.account(block.spec.queue, block.experiment.user),
        size=(queue.cores_per_slot, queue.memory_mb),
        leased_at=saved.leased_at,
        started=saved.started,
        revoked=saved.revoked,
    )
    live.open_lease(lease)


def _job(live: Live, block: Block, index: int) -> Job:
    for job in block.jobs:
        if job.index == index:
            return job
    block.jobs.append(live.new_job(block, index, None))
    return block.jobs[-1]


def _name_flights(live: Live) -> None:
    """Say which blocks compute their keys: those that have begun."""
    begun = (State.ASSIGNED, State.RUNNING, State.CANCELLING)
    for block in live.blocks.values():
        if block.state in begun:
            live.flights.setdefault(block.spec.key, block)


def _mend(
    live: Live, experiment: Experiment, cached: frozenset[str], now: float, out: list[Instruction]
) -> None:
    """Let every block wait for what it waits for, and do what had been left undone."""
    for block in tuple(experiment.blocks):
        _mend_block(live, block, cached, now, out)
    decide.settle(live, experiment, out)


def _mend_block(
    live: Live, block: Block, cached: frozenset[str], now: float, out: list[Instruction]
) -> None:
    ending = experiments.State.CANCELLING, experiments.State.DELETING
    if block.is_final():
        return
    if block.state is State.LOST:
        decide.set_block(block, blocks.Move.RETRIED, out)
    if block.experiment.state in ending or block.state is State.CANCELLING:
        decide.end_block(live, block, now, out)
    elif block.doom is not None:
        decide.job_gone(live, block, now, out)
    else:
        decide.resume_block(live, block, cached, now, out)
