"""Who holds what: the open leases, seen by user and by worker.

Every number here is the size of a set of open leases, never a counter that goes up and down: a
lease that is closed twice, or whose worker vanished, cannot leave a slot taken.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from backend.scheduler.core import use
from backend.scheduler.core.model import Environment, Queue, Right, Worker, WorkerState
from backend.scheduler.core.rights import slots_on

if TYPE_CHECKING:
    from backend.scheduler.core.live import Job
    from backend.scheduler.core.waiting import Lane, Line

Size = tuple[int, int]  #: cores, memory in MiB


@dataclass(eq=False, slots=True)
class OpenLease:
    """A job that is with a worker."""

    attempt: str
    job: Job
    site: Site
    account: Account
    size: Size  #: as it was when leased; a queue that is edited changes nothing that runs
    leased_at: float
    started: bool = False
    revoked: bool = False


@dataclass(eq=False, slots=True)
class Account:
    """What one user may hold, holds and has used of one queue."""

    user: str
    queue: str
    right: Right = Right(slots=0)  # noqa: RUF009  (frozen)
    open: dict[str, OpenLease] = field(default_factory=dict)
    use: float = use.NONE
    lanes: list[Lane] = field(default_factory=list)

    @property
    def held(self) -> int:
        """Slots of the queue that the user holds."""
        return len(self.open)

    def is_full(self) -> bool:
        """Whether the user may hold no slot more; more may be held, after a right was lowered."""
        return len(self.open) >= self.right.slots


class Site:
    """A worker, and what is open on it."""

    __slots__ = ("by_queue", "by_size", "lines", "open", "rests", "worker")

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.open: dict[str, OpenLease] = {}
        self.by_queue: dict[str, set[str]] = defaultdict(set)
        self.by_size: dict[Size, set[str]] = defaultdict(set)
        self.lines: list[Line] = []  # of waiting jobs that it could run, room permitting
        self.rests: dict[Environment | None, float] = {}  # gives nothing new until then

    def add(self, lease: OpenLease) -> None:
        self.open[lease.attempt] = lease
        self.by_queue[lease.account.queue].add(lease.attempt)
        self.by_size[lease.size].add(lease.attempt)

    def remove(self, lease: OpenLease) -> None:
        self.open.pop(lease.attempt, None)
        _discard(self.by_queue, lease.account.queue, lease.attempt)
        _discard(self.by_size, lease.size, lease.attempt)

    def used(self, queue: str) -> int:
        """Slots of a queue in use here."""
        return len(self.by_queue[queue]) if queue in self.by_queue else 0

    def free_cores(self) -> int:
        """Cores that nothing open needs; below 0 after the worker was made smaller."""
        taken = sum(size[0] * len(held) for size, held in self.by_size.items())
        return self.worker.cores - taken

    def free_memory(self) -> int:
        """Memory that nothing open may use, MiB."""
        taken = sum(size[1] * len(held) for size, held in self.by_size.items())
        return self.worker.memory_mb - taken

    def serves(self, queue: Queue, environment: Environment) -> bool:
        """Whether it could ever run such a job, were it empty."""
        worker = self.worker
        return (
            worker.state is WorkerState.ONLINE
            and environment in worker.environments
            and slots_on(queue, worker) > 0
            and queue.cores_per_slot <= worker.cores
            and queue.memory_mb <= worker.memory_mb
        )

    def has_slot(self, queue: Queue) -> bool:
        """Whether a slot of the queue is free here, cores and memory apart."""
        taken = self.by_queue.get(queue.id)
        return taken is None or len(taken) < slots_on(queue, self.worker)

    def has_room(self, queue: Queue) -> bool:
        """Whether one more slot of the queue fits in now."""
        taken = self.by_queue.get(queue.id)
        if taken is not None and len(taken) >= slots_on(queue, self.worker):
            return False
        cores, memory = self.worker.cores, self.worker.memory_mb
        for size, held in self.by_size.items():
            cores -= size[0] * len(held)
            memory -= size[1] * len(held)
        return queue.cores_per_slot <= cores and queue.memory_mb <= memory

    def is_resting(self, environment: Environment) -> bool:
        """Whether it failed lately through no fault of a job, and is left alone for a while."""
        return bool(self.rests) and (None in self.rests or environment in self.rests)


def _discard(sets: dict[Any, set[str]], key: Any, attempt: str) -> None:
    held = sets.get(key)
    if held is not None:
        held.discard(attempt)
        if not held:
            del sets[key]
