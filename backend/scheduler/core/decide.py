"""What follows from an event: each function changes the live state and says what to do.

Instructions are appended to `out` in the order in which they hold. Nothing here looks at all
jobs: an event costs what it touches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import assert_never

from backend.scheduler.core import blocks, experiments
from backend.scheduler.core.events import (
    AllStopped,
    CacheLost,
    Deleted,
    Event,
    Finished,
    Outcome,
    Planned,
    PolicySet,
    QueueRemoved,
    QueueSet,
    RightsSet,
    Started,
    Stopped,
    Submitted,
    Ticked,
    WorkerHeard,
    WorkerLost,
    WorkerRemoved,
    WorkerSet,
)
from backend.scheduler.core.instructions import (
    Begin,
    Close,
    Instruction,
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
from backend.scheduler.core.ledgers import OpenLease, Site
from backend.scheduler.core.live import Block, Experiment, Job, Live
from backend.scheduler.core.model import (
    RETRIED,
    Failure,
    FailureKind,
    Range,
    Submission,
    WorkerState,
)

Out = list[Instruction]
Move = blocks.Move
State = blocks.State

REST_SECONDS = 30.0  #: a worker that failed a job through its own fault is left alone so long

_UNASKED = Failure(kind=FailureKind.WORKER, message="the worker ended it, and nobody had asked")
_SILENT = Failure(kind=FailureKind.LOST, message="its worker was silent for too long")
_GONE = Failure(kind=FailureKind.LOST, message="its worker came back without it")
_UNTOLD = Failure(kind=FailureKind.CRASHED, message="it failed, and the worker did not say why")


def handle(live: Live, event: Event, now: float, out: Out) -> None:
    """Change the live state as the event wants, or refuse it."""
    match event:
        case Finished():
            _finished(live, event, now, out)
        case Started():
            _started(live, event, now, out)
        case Ticked():
            _ticked(live, now)
        case Submitted():
            _submitted(live, event, now, out)
        case Planned():
            _planned(live, event, now, out)
        case Stopped():
            _stopped(live, event, now, out)
        case AllStopped():
            for experiment in tuple(live.experiments.values()):
                _stop(live, experiment, now, out)
        case Deleted():
            _deleted(live, event, now, out)
        case WorkerSet():
            _worker_set(live, event, now, out)
        case WorkerHeard():
            _worker_heard(live, event, out)
        case WorkerLost():
            _worker_lost(live, event, now, out)
        case WorkerRemoved():
            _worker_removed(live, event, out)
        case QueueSet():
            live.set_queue(event.queue)
        case QueueRemoved():
            _queue_removed(live, event, out)
        case RightsSet():
            _hold_rights(live, event, out)
        case PolicySet():
            _policy_set(live, event, now, out)
        case CacheLost():
            for key in event.keys:
                live.finished_keys.pop(key, None)
        case _:
            assert_never(event)


# ---- submissions --------------------------------------------------------------------------


def _submitted(live: Live, event: Submitted, now: float, out: Out) -> None:
    submission = event.submission
    why = _why_not(live, submission)
    if why is not None:
        out.append(Refuse(experiment=submission.experiment, why=why))
        return
    rights = RightsSet(user=submission.user, rights=submission.rights)
    _hold_rights(live, rights, out)
    experiment = live.admit(submission)
    out.append(
        SetExperiment(
            experiment=experiment.id,
            state=experiments.State.PENDING,
            submitted_at=submission.submitted_at,
        )
    )
    begin(live, experiment, event.cached, now, out)


def _why_not(live: Live, submission: Submission) -> str | None:
    if submission.experiment in live.experiments:
        state = live.experiments[submission.experiment].state
        return f"the experiment is {state} already"
    for spec in submission.blocks:
        if spec.queue not in live.queues:
            return f"block {spec.name!r} asks for a queue that does not exist"
    return None


def begin(live: Live, experiment: Experiment, cached: frozenset[str], now: float, out: Out) -> None:
    """Take from the cache what it holds, and queue what is ready."""
    hits = [(b, Move.HIT) for b in experiment.blocks if _is_held(live, b.spec.key, cached)]
    _succeed(live, hits, now, out)
    for block in tuple(experiment.blocks):
        _queue_if_ready(live, block, now, out)
    settle(live, experiment, out)


def _is_held(live: Live, key: str, cached: frozenset[str]) -> bool:
    """Whether the cache holds a key: as the caller saw it, or by what has finished since."""
    return key in cached or key in live.finished_keys


def _hold_rights(live: Live, event: RightsSet, out: Out) -> None:
    if live.rights.get(event.user) != event.rights:
        live.hold_rights(event.user, event.rights)
        out.append(SetRights(user=event.user, rights=event.rights))


# ---- a block goes on ----------------------------------------------------------------------


def set_block(
    block: Block,
    move: blocks.Move,
    out: Out,
    *,
    reason: str | None = None,
    failure: Failure | None = None,
    lease: OpenLease | None = None,
) -> None:
    """Let a block make a move of its life."""
    block.state = blocks.after(block.state, move)
    out.append(
        SetBlock(
            block=block.id,
            experiment=block.experiment.id,
            state=block.state,
            reason=reason,
            failure=failure,
            attempt=lease.attempt if lease else None,
            worker=lease.site.worker.name if lease else None,
        )
    )


def _queue_if_ready(live: Live, block: Block, now: float, out: Out) -> None:
    if block.state is State.BLOCKED and block.is_ready():
        set_block(block, Move.READY, out)
        block.queued_at = now
        _take_up(live, block, now, out)


def _take_up(live: Live, block: Block, now: float, out: Out) -> None:
    """Let a queued block wait for a slot; first find out how it is cut, if it may be."""
    if not block.jobs and block.spec.slots > 1:
        live.uncut[block.id] = block
        out.append(PlanSplit(block=block.id, slots=block.spec.slots))
    elif not block.jobs:
        _cut(live, block, (None,), now)
    else:
        _wait(live, block, now)


def _wait(live: Live, block: Block, now: float) -> None:
    """Let what is left of a block wait for slots, unless another block computes the same."""
    if live.flights.get(block.spec.key, block) is not block:
        live.remark(block, now, "waits: another block computes the same")
        return
    for job in block.jobs:
        if not job.done and job.lease is None:
            live.wait(job)


def fly(live: Live, block: Block, now: float) -> None:
    """The first job of a block is leased: others of its key wait for its outputs instead."""
    live.flights[block.spec.key] = block
    if len(live.by_key[block.spec.key]) > 1:
        for peer in _queued_peers(live, block.spec.key):
            if peer is not block:
                live.withdraw(peer)
                live.remark(peer, now, "waits: another block computes the same")


def _land(live: Live, block: Block, now: float) -> None:
    """A block computes its key no longer, and has no outputs: those of its key wait for slots."""
    key = block.spec.key
    if live.flights.get(key) is block:
        del live.flights[key]
        for peer in _queued_peers(live, key):
            _wait(live, peer, now)


def _queued_peers(live: Live, key: str) -> list[Block]:
    return [peer for peer in live.by_key.get(key, {}).values() if peer.state is State.QUEUED]


def resume_block(live: Live, block: Block, cached: frozenset[str], now: float, out: Out) -> None:
    """Let a restored block wait for what it waited for."""
    untouched = block.state in (State.BLOCKED, State.QUEUED)
    if untouched and block.spec.key in cached:
        _succeed(live, [(block, Move.HIT)], now, out)
    elif block.state is State.BLOCKED:
        _queue_if_ready(live, block, now, out)
    elif block.jobs and all(job.done for job in block.jobs):
        _succeed(live, [(block, Move.FINISHED)], now, out)
    else:
        _take_up(live, block, now, out)


def _cut(live: Live, block: Block, ranges: Iterable[Range | None], now: float) -> None:
    block.jobs = [live.new_job(block, index, range_) for index, range_ in enumerate(ranges)]
    _wait(live, block, now)


def _planned(live: Live, event: Planned, now: float, out: Out) -> None:
    block = live.uncut.pop(event.block, None)
    if block is None:
        return  # stopped meanwhile, or found in the cache
    ranges: tuple[Range | None, ...] = event.ranges if _is_a_cut(block, event.ranges) else (None,)
    out.append(SplitInto(block=block.id, ranges=ranges))
    whole = "its input cannot be cut: it runs as one job"
    live.remark(block, now, f"is cut into {len(ranges)} jobs" if len(ranges) > 1 else whole)
    _cut(live, block, ranges, now)


def _is_a_cut(block: Block, ranges: tuple[Range, ...]) -> bool:
    return 2 <= len(ranges) <= block.spec.slots and _are_disjoint(ranges)


def _are_disjoint(ranges: tuple[Range, ...]) -> bool:
    in_order = all(first <= last for first, last in ranges)
    return in_order and all(a[1] < b[0] for a, b in pairwise(ranges))


def _succeed(live: Live, those: Iterable[tuple[Block, blocks.Move]], now: float, out: Out) -> None:
    """Blocks have their outputs; so have all others of their keys, and what waits for them may."""
    succeeding, succeeded = deque(those), []
    while succeeding:
        block, move = succeeding.popleft()
        if not block.is_final():
            _take_outputs(live, block, move, out)
            succeeded.append(block)
            succeeding.extend((peer, Move.HIT) for peer in _waiting_for_key(live, block.spec.key))
    for block in succeeded:
        for other in block.downstream:
            _queue_if_ready(live, other, now, out)
    for block in succeeded:
        settle(live, block.experiment, out)


def _take_outputs(live: Live, block: Block, move: blocks.Move, out: Out) -> None:
    set_block(block, move, out, reason="found in the cache" if move is Move.HIT else None)
    live.retire(block)
    if move is Move.FINISHED:
        del live.flights[block.spec.key]
        live.remember_key(block.spec.key)
    else:
        live.stop_waiting(block)


def _waiting_for_key(live: Live, key: str) -> list[Block]:
    peers = live.by_key.get(key, {}).values()
    return [peer for peer in peers if peer.state in (State.BLOCKED, State.QUEUED)]


def _fail(
    live: Live, block: Block, move: blocks.Move, failure: Failure, now: float, out: Out
) -> None:
    """A block has failed for good: what needs its outputs is skipped."""
    set_block(block, move, out, failure=failure)
    live.retire(block)
    _skip_downstream(live, block, out)
    _land(live, block, now)
    settle(live, block.experiment, out)


def _skip_downstream(live: Live, block: Block, out: Out) -> None:
    reason = f"“{block.spec.name}” failed"
    doomed = deque(block.downstream)
    while doomed:
        other = doomed.popleft()
        if other.state is State.BLOCKED:
            set_block(other, Move.UPSTREAM, out, reason=reason)
            live.retire(other)
            doomed.extend(other.downstream)


# ---- reports ------------------------------------------------------------------------------


def _lease_of(live: Live, attempt: str, worker: str, now: float, out: Out) -> OpenLease | None:
    lease = live.open.get(attempt)
    if lease is None:
        why = "the attempt is over, or never was"
    elif lease.site.worker.id != worker:
        why = "the attempt is another worker's"
    else:
        return lease
    out.append(Refuse(attempt=attempt, worker=worker, why=why))
    block = live.blocks.get(attempt.partition(".")[0])
    if block is not None:
        live.remark(block, now, f"refused a report about attempt {attempt}: {why}")
    return None


def _started(live: Live, event: Started, now: float, out: Out) -> None:
    lease = _lease_of(live, event.attempt, event.worker, now, out)
    if lease is None:
        return
    if lease.started:
        why = "the attempt had started already"
        out.append(Refuse(attempt=event.attempt, worker=event.worker, why=why))
        return
    _start(lease, out)


def _start(lease: OpenLease, out: Out) -> None:
    lease.started = True
    out.append(Begin(attempt=lease.attempt))
    block = lease.job.block
    if block.state is State.ASSIGNED and not lease.revoked:
        set_block(block, Move.STARTED, out, lease=lease)
        if block.experiment.state is experiments.State.PENDING:
            _set_experiment(block.experiment, experiments.Move.FIRST_RUNS, out)


def _finished(live: Live, event: Finished, now: float, out: Out) -> None:
    lease = _lease_of(live, event.attempt, event.worker, now, out)
    if lease is None:
        return
    if event.outcome is Outcome.DONE and not lease.started:
        _start(lease, out)  # its end is the proof that it began; that report was lost
    job = lease.job
    failure = event.failure or _unsaid_failure(event.outcome, lease)
    _close(live, lease, event.outcome, failure, now, out, event.details)
    match event.outcome:
        case Outcome.DONE:
            _job_done(live, job, now, out)
        case Outcome.FAILED:
            _job_failed(live, lease, failure or _UNTOLD, now, out)
        case Outcome.RETURNED:
            _drain(lease.site, out)
            live.match_lines_of(lease.site)
            _job_again(live, job, Move.RETURNED, "its worker handed it back", now, out)
        case Outcome.CANCELLED if lease.revoked:
            job_gone(live, job.block, now, out)
        case Outcome.CANCELLED:
            _job_failed(live, lease, _UNASKED, now, out)
        case _:
            assert_never(event.outcome)


def _unsaid_failure(outcome: Outcome, lease: OpenLease) -> Failure | None:
    if outcome is Outcome.FAILED:
        return _UNTOLD
    if outcome is Outcome.CANCELLED and not lease.revoked:
        return _UNASKED
    return None


def _close(
    live: Live,
    lease: OpenLease,
    outcome: Outcome | None,
    failure: Failure | None,
    now: float,
    out: Out,
    details: dict[str, object] | None = None,
) -> None:
    out.append(
        Close(attempt=lease.attempt, outcome=outcome, failure=failure, details=details or {})
    )
    live.close_lease(lease, now)


def _is_ending(block: Block) -> bool:
    """Whether a block only waits until nothing of it runs any more."""
    return block.state is State.CANCELLING or block.doom is not None


def job_gone(live: Live, block: Block, now: float, out: Out) -> None:
    """Something of a block that ends anyway is over: end it when that was the last."""
    if block.leases():
        return
    if block.state is State.CANCELLING:
        set_block(block, Move.GONE, out)
        live.retire(block)
        _land(live, block, now)
        settle(live, block.experiment, out)
    elif block.doom is not None and block.doom.kind is FailureKind.LOST:
        set_block(block, Move.SILENT, out, reason=block.doom.message)
        _fail(live, block, Move.GIVEN_UP, block.doom, now, out)
    elif block.doom is not None:
        _fail(live, block, Move.FAILED, block.doom, now, out)


def _job_done(live: Live, job: Job, now: float, out: Out) -> None:
    job.done = True
    if _is_ending(job.block):
        job_gone(live, job.block, now, out)
    elif all(other.done for other in job.block.jobs):
        _succeed(live, [(job.block, Move.FINISHED)], now, out)


def _job_failed(live: Live, lease: OpenLease, failure: Failure, now: float, out: Out) -> None:
    job = lease.job
    if _is_ending(job.block):
        job_gone(live, job.block, now, out)
    elif failure.kind not in RETRIED:
        _doom(live, job.block, failure, now, out)
    else:
        _rest(live, lease, failure.kind, now)
        _count_failure(live, job, failure, Move.RETURNED, now, out)


def _count_failure(
    live: Live, job: Job, failure: Failure, move: blocks.Move, now: float, out: Out
) -> None:
    """An attempt failed through no fault of the job: try again, but not for ever."""
    job.failures += 1
    if job.failures < live.max_attempts:
        _job_again(live, job, move, failure.message, now, out)
        return
    message = f"{failure.message} (attempt {job.failures} of {live.max_attempts}, the last)"
    _doom(live, job.block, Failure(kind=failure.kind, message=message), now, out)


def _rest(live: Live, lease: OpenLease, kind: FailureKind, now: float) -> None:
    """Give a worker nothing of what it could not run, for a while."""
    cause = lease.job.block.spec.environment if kind is FailureKind.ENVIRONMENT else None
    lease.site.rests[cause] = now + REST_SECONDS
    live.match_lines_of(lease.site)


def _doom(live: Live, block: Block, failure: Failure, now: float, out: Out) -> None:
    """A block will fail: take back the rest of it first."""
    block.doom = failure
    live.stop_waiting(block)
    if block.leases():
        out.append(_failing(block, failure))
    _revoke(block, out)
    job_gone(live, block, now, out)


def _failing(block: Block, failure: Failure) -> SetBlock:
    """Say, and write down, how a block will end: a restart must not forget it."""
    return SetBlock(
        block=block.id,
        experiment=block.experiment.id,
        state=block.state,
        reason="a part of it failed; the others are being stopped",
        failure=failure,
    )


def _revoke(block: Block, out: Out) -> None:
    for lease in block.leases():
        if not lease.revoked:
            lease.revoked = True
            out.append(Revoke(attempt=lease.attempt, worker=lease.site.worker.id))


def _job_again(live: Live, job: Job, move: blocks.Move, reason: str, now: float, out: Out) -> None:
    """A job is to run again; its block is queued again when nothing else of it runs."""
    block = job.block
    if _is_ending(block):
        job_gone(live, block, now, out)
        return
    if not block.leases():
        set_block(block, move, out, reason=reason)
        if block.state is State.LOST:
            set_block(block, Move.RETRIED, out, reason=reason)
        _land(live, block, now)
    else:
        live.wait(job)


# ---- stopping -----------------------------------------------------------------------------


def _stopped(live: Live, event: Stopped, now: float, out: Out) -> None:
    experiment = live.experiments.get(event.experiment)
    if experiment is None:
        out.append(Refuse(experiment=event.experiment, why="the experiment is not live"))
    else:
        _stop(live, experiment, now, out)


def _stop(live: Live, experiment: Experiment, now: float, out: Out) -> None:
    if experiment.state in (experiments.State.PENDING, experiments.State.RUNNING):
        _set_experiment(experiment, experiments.Move.STOP, out)
        _stop_blocks(live, experiment, now, out)


def _deleted(live: Live, event: Deleted, now: float, out: Out) -> None:
    experiment = live.experiments.get(event.experiment)
    if experiment is None:
        deleting = experiments.State.DELETING
        out.append(SetExperiment(experiment=event.experiment, state=deleting))
        out.append(Purge(experiment=event.experiment))
    elif experiment.state is not experiments.State.DELETING:
        _set_experiment(experiment, experiments.Move.DELETE, out)
        _stop_blocks(live, experiment, now, out)


def _stop_blocks(live: Live, experiment: Experiment, now: float, out: Out) -> None:
    for block in tuple(experiment.blocks):
        if not block.is_final() and block.state is not State.CANCELLING:
            end_block(live, block, now, out)
    settle(live, experiment, out)


def end_block(live: Live, block: Block, now: float, out: Out) -> None:
    """Stop a block that is not final; one that is being stopped already goes on with that."""
    if block.state is not State.CANCELLING:
        set_block(block, Move.STOPPED, out)
    live.stop_waiting(block)
    if block.state is State.CANCELLED:
        live.retire(block)
        return
    _revoke(block, out)
    job_gone(live, block, now, out)


def _set_experiment(experiment: Experiment, move: experiments.Move, out: Out) -> None:
    experiment.state = experiments.after(experiment.state, move)
    out.append(SetExperiment(experiment=experiment.id, state=experiment.state))


def settle(live: Live, experiment: Experiment, out: Out) -> None:
    """End an experiment all of whose blocks are final, and forget it."""
    if experiment.unfinished or experiment.id not in live.experiments:
        return
    match experiment.state:
        case experiments.State.DELETING:
            out.append(Purge(experiment=experiment.id))
        case experiments.State.CANCELLING:
            _set_experiment(experiment, experiments.Move.AT_REST, out)
        case _:
            move = experiments.ending(block.state for block in experiment.blocks)
            _set_experiment(experiment, move, out)
    live.forget(experiment)


# ---- workers, queues, policy --------------------------------------------------------------


def _worker_set(live: Live, event: WorkerSet, now: float, out: Out) -> None:
    worker = event.worker
    known = live.sites.get(worker.id)
    if known is None or known.worker.state is not worker.state:
        out.append(SetWorker(worker=worker.id, state=worker.state))
    if event.running is not None and known is not None:
        known.rests.clear()
    site = live.set_worker(worker)
    if worker.state in (WorkerState.OFFLINE, WorkerState.LOST):  # whatever it says it runs
        _fence(live, site, list(site.open), _GONE, now, out)
    elif event.running is not None:
        _fence(live, site, [a for a in site.open if a not in event.running], _GONE, now, out)


def _worker_heard(live: Live, event: WorkerHeard, out: Out) -> None:
    site = live.sites.get(event.worker)
    if site is not None and site.worker.state is WorkerState.LOST:
        _set_worker_state(live, site, WorkerState.ONLINE, out)


def _worker_lost(live: Live, event: WorkerLost, now: float, out: Out) -> None:
    site = live.sites.get(event.worker)
    if site is None or site.worker.state in (WorkerState.LOST, WorkerState.OFFLINE):
        return
    _set_worker_state(live, site, WorkerState.LOST, out)
    _fence(live, site, list(site.open), _SILENT, now, out)


def _fence(live: Live, site: Site, attempts: list[str], why: Failure, now: float, out: Out) -> None:
    """Close leases whose worker cannot be trusted with them: late reports will be refused."""
    for attempt in attempts:
        lease = live.open[attempt]
        job = lease.job
        _close(live, lease, None, why, now, out)
        if _is_ending(job.block):
            job_gone(live, job.block, now, out)
        else:
            _count_failure(live, job, why, Move.SILENT, now, out)


def _drain(site: Site, out: Out) -> None:
    """A worker that hands work back is about to go: it gets nothing new."""
    if site.worker.state is WorkerState.ONLINE:
        site.worker = replace(site.worker, state=WorkerState.DRAINING)
        out.append(SetWorker(worker=site.worker.id, state=WorkerState.DRAINING))


def _set_worker_state(live: Live, site: Site, state: WorkerState, out: Out) -> None:
    live.set_worker(replace(site.worker, state=state))
    out.append(SetWorker(worker=site.worker.id, state=state))


def _worker_removed(live: Live, event: WorkerRemoved, out: Out) -> None:
    site = live.sites.get(event.worker)
    if site is None:
        return
    if site.open:
        why = f"{len(site.open)} jobs are with the worker: drain it first"
        out.append(Refuse(worker=event.worker, why=why))
        return
    for line in site.lines:
        line.sites.pop(event.worker, None)
    del live.sites[event.worker]


def _queue_removed(live: Live, event: QueueRemoved, out: Out) -> None:
    users = [b for b in live.blocks.values() if b.spec.queue == event.queue and not b.is_final()]
    if users:
        out.append(Refuse(why=f"{len(users)} blocks of live experiments use the queue"))
        return
    live.drop_queue(event.queue)


def _policy_set(live: Live, event: PolicySet, now: float, out: Out) -> None:
    if event.policy not in live.policies:
        known = ", ".join(sorted(live.policies))
        out.append(Refuse(why=f"there is no policy {event.policy!r}; there are {known}"))
    elif event.policy != live.policy_name:
        live.policy_name = event.policy
        live.reorder(now)
        out.append(SetPolicy(policy=event.policy))


def _ticked(live: Live, now: float) -> None:
    for site in live.sites.values():
        over = [cause for cause, until in site.rests.items() if until <= now]
        if over:
            for cause in over:
                del site.rests[cause]
            live.match_lines_of(site)
    live.reorder(now)
