"""The jobs that wait, indexed so that no event and no decision looks at all of them.

A *line* holds jobs that need the same queue and environment: if one of them fits nowhere, none
does. A line has a *lane* for each user; within a lane the oldest job goes first. The policy puts
the lanes of a line in order. A lane whose user's right is used up is out of the order until
there is room again.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import TYPE_CHECKING

from backend.scheduler.core.ledgers import Account, Site
from backend.scheduler.core.model import Environment, Queue
from backend.scheduler.core.policies import Age, Place, Policy

if TYPE_CHECKING:
    from backend.scheduler.core.live import Job


class Lane:
    """The waiting jobs of one user in one line, oldest first; a policy's Candidate."""

    __slots__ = ("_heap", "account", "line", "number", "place", "waiting")

    def __init__(self, line: Line, account: Account, number: int) -> None:
        self.line = line
        self.account = account
        self.number = number  # breaks ties between equal places
        self.waiting: dict[Age, Job] = {}
        self._heap: list[Age] = []
        self.place: Place | None = None  # None: not in the line's order

    def put(self, job: Job) -> None:
        if job.age not in self.waiting:
            self.waiting[job.age] = job
            heapq.heappush(self._heap, job.age)

    def take(self) -> Job:
        """Remove the oldest job and return it."""
        job = self.waiting.pop(heapq.heappop(self._heap))
        self._prune()
        return job

    def drop(self, job: Job) -> None:
        """Remove a job that need not run any more."""
        if self.waiting.pop(job.age, None) is not None:
            self._prune()

    def _prune(self) -> None:
        while self._heap and self._heap[0] not in self.waiting:
            heapq.heappop(self._heap)

    def may_go(self) -> bool:
        """Whether a job waits whose user may hold one slot more."""
        return bool(self._heap) and not self.account.is_full()

    @property
    def user(self) -> str:
        return self.account.user

    @property
    def queue(self) -> str:
        return self.account.queue

    @property
    def age(self) -> Age:
        return self._heap[0]

    @property
    def waiting_since(self) -> float:
        return self.waiting[self._heap[0]].block.queued_at

    @property
    def priority(self) -> int:
        return self.account.right.priority

    @property
    def right(self) -> int:
        return self.account.right.slots

    @property
    def held(self) -> int:
        return len(self.account.open)

    @property
    def recent_use(self) -> float:
        return self.account.use


class Line:
    """The waiting jobs that need one queue and one environment."""

    __slots__ = ("_order", "environment", "lanes", "number", "queue", "sites")

    def __init__(self, queue: Queue, environment: Environment, number: int) -> None:
        self.queue = queue
        self.environment = environment
        self.number = number
        self.lanes: dict[str, Lane] = {}  # by user
        #: workers that may have room: all that do, and some found full when next looked at
        self.sites: OrderedDict[str, Site] = OrderedDict()
        self._order: list[tuple[Place, int, Lane]] = []

    def replace(self, lane: Lane, policy: Policy, now: float) -> None:
        """Put a lane where the policy wants it now, or out of the order if it may not go."""
        place = policy(lane, now) if lane.may_go() else None
        if place != lane.place:
            lane.place = place
            if place is not None:
                heapq.heappush(self._order, (place, lane.number, lane))
                if len(self._order) > 64 + 2 * len(self.lanes):
                    self._compact()

    def _compact(self) -> None:
        """Drop the places that lanes have left; first() alone drops only those at the top."""
        self._order = [
            (lane.place, lane.number, lane)
            for lane in self.lanes.values()
            if lane.place is not None
        ]
        heapq.heapify(self._order)

    def reorder(self, policy: Policy, now: float) -> None:
        """Put all lanes in order anew: the policy changed, or time passed."""
        self._order.clear()
        for lane in self.lanes.values():
            lane.place = None
            self.replace(lane, policy, now)

    def first(self) -> Lane | None:
        """Return the lane that goes first; None if none may go."""
        order = self._order
        while order:
            place, _, lane = order[0]
            if place is lane.place:
                return lane
            heapq.heappop(order)  # the lane has moved since
        return None

    def room(self) -> Site | None:
        """Return a worker with room for one job, each in turn; None if there is none."""
        sites = self.sites
        while sites:
            name, site = next(iter(sites.items()))
            if site.has_room(self.queue):
                sites.move_to_end(name)
                return site
            del sites[name]
        return None

    def fits(self, site: Site) -> bool:
        """Whether a worker could run these jobs, room permitting, and is not resting."""
        return site.serves(self.queue, self.environment) and not site.is_resting(self.environment)
