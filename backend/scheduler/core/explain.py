"""Why a block is where it is: the first constraint that binds, its numbers, and what would help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from backend.scheduler.core import blocks
from backend.scheduler.core.ledgers import Site
from backend.scheduler.core.live import Block, Job, Live
from backend.scheduler.core.model import Queue, WorkerState
from backend.scheduler.core.rights import slots_on
from backend.scheduler.core.waiting import Lane


class Constraint(StrEnum):
    """What binds, in the order in which it is looked for."""

    NONE = "none"  # it runs, or is over
    INPUTS = "inputs"
    SAME_KEY = "same key"
    CUTTING = "cutting"
    RIGHT = "right"
    WORKER = "worker"
    ENVIRONMENT = "environment"
    QUEUE = "queue"
    CORES = "cores"
    MEMORY = "memory"
    RESTING = "resting worker"
    ORDER = "policy order"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a block is not running, for whoever waits for it."""

    block: str
    constraint: Constraint
    message: str
    numbers: dict[str, int | float | str] = field(default_factory=dict)
    would_start: str  #: what would let it start


def explain(live: Live, block: Block, now: float) -> Explanation:
    """Return the first binding constraint of a live block."""
    if block.state is blocks.State.BLOCKED:
        return _inputs(block)
    if block.state is not blocks.State.QUEUED and not _waiting(live, block):
        return _nothing(block)
    for look in _LOOKS:
        found = look(live, block, now)
        if found is not None:
            return found
    return _order(live, block)


def _waiting(live: Live, block: Block) -> list[Job]:
    lane = live.lane(block)
    return [job for job in block.jobs if lane is not None and job.age in lane.waiting]


def _nothing(block: Block) -> Explanation:
    workers = sorted({lease.site.worker.name for lease in block.leases()})
    return Explanation(
        block=block.id,
        constraint=Constraint.NONE,
        message=f"it is {block.state}" + (f" on {', '.join(workers)}" if workers else ""),
        numbers={"jobs": len(block.jobs), "jobs_done": sum(job.done for job in block.jobs)},
        would_start="nothing is needed",
    )


def _inputs(block: Block) -> Explanation:
    missing = [b for b in block.upstream if b.state not in blocks.SUCCEEDED]
    names = ", ".join(f"“{b.spec.name}” ({b.state})" for b in missing)
    return Explanation(
        block=block.id,
        constraint=Constraint.INPUTS,
        message=f"waits for {names}",
        numbers={"missing": len(missing), "inputs": len(block.upstream)},
        would_start="it is queued as soon as these are done",
    )


Look = Callable[[Live, Block, float], Explanation | None]


def _same_key(live: Live, block: Block, now: float) -> Explanation | None:
    leader = live.flights.get(block.spec.key)
    if leader is None or leader is block:
        return None
    return Explanation(
        block=block.id,
        constraint=Constraint.SAME_KEY,
        message="another experiment computes the same just now",
        numbers={"other_state": str(leader.state)},
        would_start="it takes that result from the cache; if there is none, it runs itself",
    )


def _cutting(live: Live, block: Block, now: float) -> Explanation | None:
    if block.id not in live.uncut:
        return None
    return Explanation(
        block=block.id,
        constraint=Constraint.CUTTING,
        message=f"its input is being cut into at most {block.spec.slots} ranges",
        numbers={"slots": block.spec.slots},
        would_start="it is offered as soon as the ranges are known",
    )


def _right(live: Live, block: Block, now: float) -> Explanation | None:
    queue = live.queues[block.spec.queue]
    account = live.account(block.spec.queue, block.experiment.user)
    if not account.is_full():
        return None
    numbers: dict[str, int | float | str] = {
        "right": account.right.slots,
        "held": account.held,
        "queue": queue.name,
    }
    if account.right.slots == 0:
        message = f"there is no right on queue {queue.name} any more"
        help_ = "an administrator gives a right on the queue to one of the user's groups"
    else:
        message = f"the right on queue {queue.name}: {account.held} of {account.right.slots} in use"
        help_ = "one of the user's own jobs on this queue ends, or the right grows"
    return Explanation(
        block=block.id,
        constraint=Constraint.RIGHT,
        message=message,
        numbers=numbers,
        would_start=help_,
    )


def _no_worker(live: Live, block: Block, now: float) -> Explanation | None:
    online = sum(1 for _ in live.online())
    if online:
        return None
    draining = sum(s.worker.state is WorkerState.DRAINING for s in live.sites.values())
    return Explanation(
        block=block.id,
        constraint=Constraint.WORKER,
        message="no worker is online",
        numbers={"workers": len(live.sites), "draining": draining},
        would_start="a worker comes online",
    )


def _with_environment(live: Live, block: Block) -> list[Site]:
    return [s for s in live.online() if block.spec.environment in s.worker.environments]


def _no_environment(live: Live, block: Block, now: float) -> Explanation | None:
    if _with_environment(live, block):
        return None
    name, version = block.spec.environment
    return Explanation(
        block=block.id,
        constraint=Constraint.ENVIRONMENT,
        message=f"no worker that is online has the environment {name} ({version})",
        numbers={"online": sum(1 for _ in live.online())},
        would_start="a worker that has it comes online",
    )


def _queue_full(live: Live, block: Block, now: float) -> Explanation | None:
    queue = live.queues[block.spec.queue]
    sites = _with_environment(live, block)
    total = sum(slots_on(queue, site.worker) for site in sites)
    used = sum(site.used(queue.id) for site in sites)
    if any(site.used(queue.id) < slots_on(queue, site.worker) for site in sites):
        return None
    nothing = f"queue {queue.name} has no slots on the workers that have the environment"
    return Explanation(
        block=block.id,
        constraint=Constraint.QUEUE,
        message=nothing if total == 0 else f"queue {queue.name} is full: {used} of {total} in use",
        numbers={"slots": total, "used": used, "ahead": ahead(live, block)},
        would_start="a job of the queue ends, or the queue gets more slots",
    )


def _with_slot(live: Live, block: Block) -> list[Site]:
    queue = live.queues[block.spec.queue]
    sites = _with_environment(live, block)
    return [s for s in sites if s.used(queue.id) < slots_on(queue, s.worker)]


def _no_cores(live: Live, block: Block, now: float) -> Explanation | None:
    queue = live.queues[block.spec.queue]
    sites = _with_slot(live, block)
    most = max(site.free_cores() for site in sites)
    if most >= queue.cores_per_slot:
        return None
    largest = max(site.worker.cores for site in sites)
    return Explanation(
        block=block.id,
        constraint=Constraint.CORES,
        message=f"it needs {_cores(queue)}, and no worker with a free slot has more than {most}",
        numbers={"needed": queue.cores_per_slot, "free": most, "largest": largest},
        would_start=_grow_or_wait(queue.cores_per_slot, largest, "cores"),
    )


def _no_memory(live: Live, block: Block, now: float) -> Explanation | None:
    queue = live.queues[block.spec.queue]
    sites = _with_slot(live, block)
    fitting = [site for site in sites if site.free_cores() >= queue.cores_per_slot]
    most = max(site.free_memory() for site in fitting)
    if most >= queue.memory_mb:
        return None
    largest = max(site.worker.memory_mb for site in sites)
    return Explanation(
        block=block.id,
        constraint=Constraint.MEMORY,
        message=f"it needs {queue.memory_mb} MiB, and no worker with a free slot has more than"
        f" {most} MiB",
        numbers={"needed": queue.memory_mb, "free": most, "largest": largest},
        would_start=_grow_or_wait(queue.memory_mb, largest, "memory"),
    )


def _cores(queue: Queue) -> str:
    return f"{queue.cores_per_slot} core" + ("s" if queue.cores_per_slot > 1 else "")


def _grow_or_wait(needed: int, largest: int, what: str) -> str:
    if needed > largest:
        return f"a worker with more {what} comes online: none is large enough"
    return "other jobs on such a worker end"


def _resting(live: Live, block: Block, now: float) -> Explanation | None:
    queue, environment = live.queues[block.spec.queue], block.spec.environment
    sites = [s for s in _with_slot(live, block) if s.has_room(queue)]
    if any(not site.is_resting(environment) for site in sites):
        return None
    until = min(max(site.rests.values()) for site in sites)
    return Explanation(
        block=block.id,
        constraint=Constraint.RESTING,
        message="the workers with room have just failed a job and are left alone for a while",
        numbers={"workers": len(sites), "seconds": max(0.0, round(until - now, 1))},
        would_start="their rest is over",
    )


_LOOKS: tuple[Look, ...] = (
    _same_key,
    _cutting,
    _right,
    _no_worker,
    _no_environment,
    _queue_full,
    _no_cores,
    _no_memory,
    _resting,
)


def _order(live: Live, block: Block) -> Explanation:
    count = ahead(live, block)
    return Explanation(
        block=block.id,
        constraint=Constraint.ORDER,
        message=f"{count} jobs go before it by the policy {live.policy_name}"
        if count
        else "it is the next to start",
        numbers={"ahead": count, "policy": live.policy_name},
        would_start="those before it start or end",
    )


def ahead(live: Live, block: Block) -> int:
    """Count the waiting jobs of its queue and environment that go before a block, about.

    Other users' jobs count when they are older, or all of them when their lane goes first under
    a policy that is not by age alone; the count is for people, the pass does not use it.
    """
    lane = live.lane(block)
    jobs = _waiting(live, block)
    if lane is None or not jobs:
        return 0
    age = min(job.age for job in jobs)
    return sum(_older(other, age) for other in lane.line.lanes.values())


def _older(lane: Lane, age: tuple[float, str, int, int]) -> int:
    return sum(other < age for other in lane.waiting)
