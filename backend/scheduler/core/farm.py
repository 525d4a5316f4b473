"""The farm: events in, instructions out. It knows no clock, no database, no network.

`handle` takes one event and says what follows from it; `schedule` is the pass after a batch of
events, which gives free slots to waiting jobs. Both return plain data that the shell commits
and then carries out; a farm whose instructions were not committed is thrown away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from backend.scheduler.core import decide, place, policies, restore, use
from backend.scheduler.core import explain as explaining
from backend.scheduler.core.events import Event
from backend.scheduler.core.explain import Explanation
from backend.scheduler.core.instructions import Instruction, Lease
from backend.scheduler.core.ledgers import OpenLease
from backend.scheduler.core.live import Live
from backend.scheduler.core.model import WorkerState
from backend.scheduler.core.overview import overview
from backend.scheduler.core.snapshot import RecentUse, Snapshot
from backend.scheduler.core.story import Line

MAX_ATTEMPTS = 3


class Farm:
    """Users' jobs, queues and workers, and who may run what next."""

    def __init__(
        self,
        *,
        policy: str = "fifo",
        max_attempts: int = MAX_ATTEMPTS,
        policies: Mapping[str, policies.Policy] = policies.BUILT_IN,
    ) -> None:
        self._live = Live(policies, policy if policy in policies else "fifo", max_attempts)
        self._left_over: list[Instruction] = []

    @classmethod
    def restore(
        cls,
        snapshot: Snapshot,
        now: float,
        *,
        max_attempts: int = MAX_ATTEMPTS,
        policies: Mapping[str, policies.Policy] = policies.BUILT_IN,
    ) -> Farm:
        """Return the farm of a snapshot; what had been left undone comes with the first pass."""
        farm = cls(policy=snapshot.policy, max_attempts=max_attempts, policies=policies)
        restore.restore(farm._live, snapshot, now, farm._left_over)
        return farm

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """Return what follows from an event; `now` in seconds since the epoch."""
        out: list[Instruction] = []
        decide.handle(self._live, event, now, out)
        return out

    def schedule(self, now: float) -> list[Instruction]:
        """Give free slots to waiting jobs; afterwards no waiting job could start."""
        out, self._left_over = self._left_over, []
        place.schedule(self._live, now, out)
        return out

    # ---- questions ------------------------------------------------------------------------

    @property
    def policy(self) -> str:
        """The name of the policy in force."""
        return self._live.policy_name

    def explain(self, block: str, now: float) -> Explanation | None:
        """Say why a live block is where it is; None if it is not live."""
        found = self._live.blocks.get(block)
        return explaining.explain(self._live, found, now) if found else None

    def remarks(self, block: str) -> list[Line]:
        """Return the decisions about a live block that no row tells."""
        return [Line(time, text) for time, text in self._live.remarks.get(block, ())]

    def leases(self) -> Iterable[Lease]:
        """Yield every open lease."""
        return (_lease(open_) for open_ in self._live.open.values())

    def waited(self, attempt: str) -> float:
        """Return the seconds for which the job of an open lease waited; 0 if there is none."""
        open_ = self._live.open.get(attempt)
        return open_.leased_at - open_.job.block.queued_at if open_ else 0.0

    def oldest_waiting(self, now: float) -> dict[str, float]:
        """Return, by queue, for how many seconds its oldest waiting job has waited."""
        oldest = dict.fromkeys(self._live.queues, 0.0)
        for line in self._live.lines.values():
            for lane in line.lanes.values():
                if lane.waiting:
                    waited = now - lane.waiting_since
                    oldest[line.queue.id] = max(oldest[line.queue.id], waited)
        return oldest

    def revoked(self) -> Iterable[str]:
        """Yield the open attempts that are to be killed."""
        return (open_.attempt for open_ in self._live.open.values() if open_.revoked)

    def unplanned(self) -> list[tuple[str, int]]:
        """Return the blocks that wait for their ranges, with the slots they were given."""
        return [(block.id, block.spec.slots) for block in self._live.uncut.values()]

    def worker_state(self, worker: str) -> WorkerState | None:
        """Return a worker's state; None if there is no such worker."""
        site = self._live.sites.get(worker)
        return site.worker.state if site else None

    def speaking_workers(self) -> list[str]:
        """Return the workers that are expected to speak."""
        speaking = (WorkerState.ONLINE, WorkerState.DRAINING)
        return [name for name, s in self._live.sites.items() if s.worker.state in speaking]

    def recent_use(self) -> list[RecentUse]:
        """Return what users took of queues lately, to keep over a restart."""
        return [
            RecentUse(user=a.user, queue=a.queue, slot_seconds=1.0, at=_when(a.use))
            for a in self._live.accounts.values()
            if a.use != use.NONE
        ]

    def state(self) -> dict[str, Any]:
        """Return the farm as the administrator sees it; plain JSON."""
        return overview(self._live)


def _when(recent: float) -> float:
    """Return the time at which one slot-second would count for this use."""
    return recent * policies.HALF_LIFE_SECONDS


def _lease(open_: OpenLease) -> Lease:
    job = open_.job
    return Lease(
        attempt=open_.attempt,
        block=job.block.id,
        experiment=job.block.experiment.id,
        index=job.index,
        number=job.number,
        range=job.range,
        worker=open_.site.worker.id,
    )
