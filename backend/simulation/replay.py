"""A load through the real core: its Farm decides, and simulated workers do what it leases.

Time jumps from event to event. At one instant the ends come first, then submissions, then one
pass, as the server's loop does it with a batch; the clock ticks before every batch (a server's
ticks each second, but between two batches there is nothing to decide). A lease starts at the
instant at which it is given: what the network costs is not simulated.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

from backend.scheduler.core import policies
from backend.scheduler.core.events import (
    Event,
    Finished,
    Outcome,
    Planned,
    QueueSet,
    Started,
    Submitted,
    Ticked,
    WorkerSet,
)
from backend.scheduler.core.farm import Farm
from backend.scheduler.core.instructions import Instruction, Lease, PlanSplit, Refuse
from backend.scheduler.core.model import BlockKind, BlockSpec, Queue, Submission, Worker
from backend.simulation.load import BadLoadError, Job, Load, Site

QUEUE, ENVIRONMENT = "queue", ("simulated", "1")


@dataclass(slots=True)
class Trip:
    """What became of one job."""

    job: Job
    first_start: float = -1.0
    last_start: float = -1.0
    end: float = -1.0
    parts_done: int = 0

    @property
    def wait(self) -> float:
        """Seconds from its submission until the last of its parts started."""
        return self.last_start - self.job.submitted


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a job on one worker."""

    job: int  #: number of the job
    user: str
    worker: str
    start: float
    end: float


@dataclass(slots=True, kw_only=True)
class Run:
    """A load under one policy, from the first submission to the last end."""

    policy: str
    load: Load
    site: Site
    trips: list[Trip]
    parts: list[Part] = field(default_factory=list)
    levels: list[tuple[float, int, int]] = field(default_factory=list)  #: time, busy, waiting
    decisions: int = 0  #: leases given, starts and ends taken
    fair_seconds: float = 0.0  #: time in which two users or more had something waiting …
    fair_share: float = 0.0  #: … and the integral over it of Jain's index of held / right


def replay(
    load: Load, site: Site, policy: str, known: Mapping[str, policies.Policy] = policies.BUILT_IN
) -> Run:
    """Return what a policy makes of a load. Raises BadLoadError when it cannot be run."""
    if policy not in known:
        raise BadLoadError(f"there is no policy {policy!r}; there are {', '.join(sorted(known))}")
    return _Replay(load, site, policy, known).whole()


class _Replay:
    """The simulated workers and the clock."""

    def __init__(
        self, load: Load, site: Site, policy: str, known: Mapping[str, policies.Policy]
    ) -> None:
        self.site = site
        self.now = load.jobs[0].submitted
        self.farm = Farm(policy=policy, policies=known)
        self.run = Run(policy=policy, load=load, site=site, trips=[Trip(job) for job in load.jobs])
        self.ends: list[tuple[float, int, Lease]] = []  # the number breaks ties, in lease order
        self.arrivals = enumerate(load.jobs)
        self.next_arrival = next(self.arrivals, None)
        self.held: dict[str, int] = {}
        self.waiting: dict[str, int] = {}  # users with unstarted parts only
        self.busy = 0

    def whole(self) -> Run:
        self._tell(QueueSet(queue=_queue(self.site)))
        for number in range(self.site.workers):
            self._tell(WorkerSet(worker=_worker(number, self.site)))
        while (moment := self._next_moment()) is not None:
            self._pass_time(moment)
            self._happen()
        if self.waiting:
            raise BadLoadError(f"jobs of {', '.join(sorted(self.waiting))} can never start")
        return self.run

    def _next_moment(self) -> float | None:
        ends = self.ends[0][0] if self.ends else None
        arrives = self.next_arrival[1].submitted if self.next_arrival else None
        moments = [moment for moment in (ends, arrives) if moment is not None]
        return min(moments, default=None)

    def _pass_time(self, moment: float) -> None:
        """Go on to a moment; until then shares are as they are now."""
        if len(self.waiting) >= 2 and moment > self.now:
            rights = self.site.right_of
            shares = [self.held.get(user, 0) / rights(user).slots for user in self.waiting]
            self.run.fair_seconds += moment - self.now
            self.run.fair_share += (moment - self.now) * jain(shares)
        self.now = moment

    def _happen(self) -> None:
        """Let everything of this moment happen, and give what is free."""
        self._tell(Ticked())
        while self.ends and self.ends[0][0] <= self.now:
            self._end(heapq.heappop(self.ends)[2])
        while self.next_arrival and self.next_arrival[1].submitted <= self.now:
            self._arrive(*self.next_arrival)
            self.next_arrival = next(self.arrivals, None)
        for instruction in self.farm.schedule(self.now):
            if isinstance(instruction, Lease):
                self._start(instruction)
        self.run.levels.append((self.now, self.busy, sum(self.waiting.values())))

    def _tell(self, event: Event) -> list[Instruction]:
        out = self.farm.handle(event, self.now)
        refused = next((i.why for i in out if isinstance(i, Refuse)), None)
        if refused is not None:
            raise BadLoadError(f"the core refused a {type(event).__name__}: {refused}")
        return out

    # ---- jobs -----------------------------------------------------------------------------

    def _arrive(self, index: int, job: Job) -> None:
        self.waiting[job.user] = self.waiting.get(job.user, 0) + job.slots
        for instruction in self._tell(_submitted(index, job, self.site)):
            if isinstance(instruction, PlanSplit):
                parts = tuple((part, part) for part in range(job.slots))
                self._tell(Planned(block=instruction.block, ranges=parts))

    def _start(self, lease: Lease) -> None:
        trip = self._trip(lease)
        user = trip.job.user
        end = self.now + trip.job.seconds
        trip.first_start = self.now if trip.first_start < 0 else trip.first_start
        trip.last_start = self.now
        self.busy += 1
        self.held[user] = self.held.get(user, 0) + 1
        self.waiting[user] -= 1
        if not self.waiting[user]:
            del self.waiting[user]
        self._tell(Started(attempt=lease.attempt, worker=lease.worker))
        self.run.decisions += 2
        self.run.parts.append(Part(trip.job.number, user, lease.worker, self.now, end))
        heapq.heappush(self.ends, (end, self.run.decisions, lease))

    def _end(self, lease: Lease) -> None:
        trip = self._trip(lease)
        trip.parts_done += 1
        trip.end = self.now
        self.busy -= 1
        self.held[trip.job.user] -= 1
        self._tell(Finished(attempt=lease.attempt, worker=lease.worker, outcome=Outcome.DONE))
        self.run.decisions += 1

    def _trip(self, lease: Lease) -> Trip:
        return self.run.trips[int(lease.experiment)]


def jain(values: list[float]) -> float:
    """Return Jain's index: 1 when all are equal, 1/n when one has everything; 1 for all zero.

    R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource
    Allocation in Shared Computer Systems", DEC-TR-301, 1984.
    """
    squares = len(values) * sum(value * value for value in values)
    return sum(values) ** 2 / squares if squares else 1.0


# ---- the farm -----------------------------------------------------------------------------


def _queue(site: Site) -> Queue:
    return Queue(
        id=QUEUE,
        name=QUEUE,
        memory_mb=1,
        time_seconds=1,  # run times are the load's: nothing here is killed at a limit
        slots_per_worker=site.slots_per_worker,
        cores_per_slot=1,
        environments=frozenset({ENVIRONMENT}),
    )


def _worker(number: int, site: Site) -> Worker:
    return Worker(
        id=f"worker{number}",
        name=f"worker{number}",
        cores=site.slots_per_worker,
        memory_mb=site.slots_per_worker,
        environments=frozenset({ENVIRONMENT}),
    )


def _submitted(index: int, job: Job, site: Site) -> Submitted:
    name = f"{index:09}"  # the core breaks ties of time by name
    block = BlockSpec(
        id=name,
        name=name,
        kind=BlockKind.BLOCK,
        inputs=(),
        queue=QUEUE,
        environment=ENVIRONMENT,
        slots=job.slots,
        key=name,
    )
    return Submitted(
        submission=Submission(
            experiment=name,
            user=job.user,
            rights={QUEUE: site.right_of(job.user)},
            blocks=(block,),
            submitted_at=job.submitted,
        )
    )
