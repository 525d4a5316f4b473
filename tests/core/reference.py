"""The pass by hand: looks at every waiting job each time, and counts every ledger from scratch."""

from __future__ import annotations

from dataclasses import dataclass

from backend.scheduler.core import policies
from backend.scheduler.core.farm import Farm
from backend.scheduler.core.instructions import Lease
from backend.scheduler.core.live import Job
from backend.scheduler.core.model import Queue, Right, WorkerState


@dataclass
class Held:
    """An open lease, as far as ledgers are concerned."""

    user: str
    queue: str
    worker: str
    cores: int
    memory: int


class Reference:
    """What a pass ought to do, found before it happens."""

    def __init__(self, farm: Farm) -> None:
        self.live = farm._live
        self.waiting = list(self.live.waiting_jobs())
        self.held = [
            Held(
                lease.job.block.experiment.user,
                lease.job.block.spec.queue,
                lease.site.worker.id,
                *lease.size,
            )
            for lease in self.live.open.values()
        ]

    def check(self, leases: list[Lease], now: float) -> None:
        """Assert that these leases, and no others, follow; each in the policy's order."""
        for lease in leases:
            able = [job for job in self.waiting if self.may_start(job)]
            assert able, f"{lease} cannot start"
            first = min(able, key=lambda job: self.live.policy(Candidate(self, job), now))
            assert (first.block.id, first.index) == (lease.block, lease.index)
            assert self.fits(first, lease.worker)
            self.waiting.remove(first)
            self.waiting = [job for job in self.waiting if not _waits_for(job, first)]
            queue = self.queue(first)
            user = first.block.experiment.user
            new = Held(user, queue.id, lease.worker, queue.cores_per_slot, queue.memory_mb)
            self.held.append(new)
        left = [job for job in self.waiting if self.may_start(job)]
        assert not left, f"{[(j.block.id, j.index) for j in left]} could start, and wait"

    def queue(self, job: Job) -> Queue:
        return self.live.queues[job.block.spec.queue]

    def right(self, job: Job) -> Right:
        rights = self.live.rights.get(job.block.experiment.user, {})
        return rights.get(job.block.spec.queue, Right(slots=0))

    def held_by(self, user: str, queue: str) -> int:
        return sum((held.user, held.queue) == (user, queue) for held in self.held)

    def may_start(self, job: Job) -> bool:
        held = self.held_by(job.block.experiment.user, job.block.spec.queue)
        return held < self.right(job).slots and any(self.fits(job, w) for w in self.live.sites)

    def fits(self, job: Job, name: str) -> bool:
        site, queue, environment = (
            self.live.sites[name],
            self.queue(job),
            job.block.spec.environment,
        )
        machine, here = site.worker, [held for held in self.held if held.worker == name]
        slots = machine.shares.get(queue.id, queue.slots_per_worker)
        return (
            machine.state is WorkerState.ONLINE
            and environment in machine.environments
            and not {None, environment} & set(site.rests)
            and sum(held.queue == queue.id for held in here) < slots
            and sum(held.cores for held in here) + queue.cores_per_slot <= machine.cores
            and sum(held.memory for held in here) + queue.memory_mb <= machine.memory_mb
        )


def _waits_for(job: Job, leased: Job) -> bool:
    """Whether a job need not run while this one does: another block, the same key."""
    return job.block is not leased.block and job.block.spec.key == leased.block.spec.key


class Candidate:
    """One job as a policy sees it, its numbers counted from scratch."""

    def __init__(self, reference: Reference, job: Job) -> None:
        self.user, self.queue, self.age = job.block.experiment.user, job.block.spec.queue, job.age
        self.waiting_since = job.block.queued_at
        right = reference.right(job)
        self.priority, self.right = right.priority, right.slots
        self.held = reference.held_by(self.user, self.queue)
        self.recent_use = reference.live.account(self.queue, self.user).use


# `policies.Candidate` is a Protocol; this line makes a type checker compare the two.
_: type[policies.Candidate] = Candidate
