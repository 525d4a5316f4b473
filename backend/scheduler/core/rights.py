"""What a user may hold of a queue: the rights of all groups, and reputation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from backend.scheduler.core.model import Queue, Right, Worker

NEUTRAL = 100  #: percent of reputation that changes nothing


def joined(rights: Iterable[Right]) -> Right:
    """Return the maximum of slots and, separately, of priority; no slots if there is no right."""
    rights = tuple(rights)
    return Right(
        slots=max((right.slots for right in rights), default=0),
        priority=max((right.priority for right in rights), default=0),
    )


def slots_on(queue: Queue, worker: Worker) -> int:
    """Return the slots of a queue on a worker: the share, or else the queue's own number."""
    return worker.shares.get(queue.id, queue.slots_per_worker)


def total_slots(queue: Queue, workers: Iterable[Worker]) -> int:
    """Return the slots of a queue over all workers."""
    return sum(slots_on(queue, worker) for worker in workers)


def with_reputation(right: Right, reputation: int, total: int) -> Right:
    """Return a right multiplied by reputation (percent), capped at the queue's slots over all.

    A right of at least one slot stays one of at least one: whoever may use the queue can wait
    for its first worker.
    """
    if right.slots < 1:
        return right
    multiplied = max(1, right.slots * reputation // NEUTRAL)
    return Right(slots=max(1, min(total, multiplied)), priority=right.priority)


def held(
    by_queue: Mapping[str, Iterable[Right]], reputation: int, totals: Mapping[str, int]
) -> dict[str, Right]:
    """Return what a user may hold, queue by queue; queues without a right are left out.

    `by_queue`: the rights that the user's groups give; `totals`: slots over all workers.
    """
    rights = {
        queue: with_reputation(joined(given), reputation, totals.get(queue, 0))
        for queue, given in by_queue.items()
    }
    return {queue: right for queue, right in rights.items() if right.slots >= 1}
