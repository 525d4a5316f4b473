"""The pass: give free slots to waiting jobs, in the order of the policy.

It looks only at lines whose jobs or workers have changed since the last pass, and in these only
at the lane that goes first: a decision costs the logarithm of the number of users, not of jobs.
When it is over no waiting job could start: for each line that it left, either no lane may go or
no worker has room.
"""

from __future__ import annotations

import heapq
from typing import Any

from backend.scheduler.core.blocks import Move, State
from backend.scheduler.core.decide import fly, set_block
from backend.scheduler.core.instructions import Instruction, Lease
from backend.scheduler.core.ledgers import OpenLease, Site
from backend.scheduler.core.live import Job, Live
from backend.scheduler.core.waiting import Lane, Line


def schedule(live: Live, now: float, out: list[Instruction]) -> None:
    """Lease every job that can start, the first in the policy's order first."""
    live.put_in_order(now)
    contest = _contest(live.hot)
    while contest:
        place, number, line = contest[0]
        lane = line.first()
        if lane is None:
            heapq.heappop(contest)
        elif lane.place is not place:
            heapq.heapreplace(contest, (lane.place, number, line))
        elif not _give(live, line, lane, now, out):
            heapq.heappop(contest)
    live.hot.clear()


def _contest(lines: set[Line]) -> list[tuple[Any, int, Line]]:
    """Return a heap of the lines in which somebody may go, by the place of their first."""
    contest = [(lane.place, line.number, line) for line in lines if (lane := line.first())]
    heapq.heapify(contest)
    return contest


def _give(live: Live, line: Line, lane: Lane, now: float, out: list[Instruction]) -> bool:
    """Lease the lane's oldest job to a worker with room; False if there is none."""
    site = line.room()
    if site is None:
        return False
    _lease(live, lane.take(), site, lane, now, out)
    for moved in live.moved:
        moved.line.replace(moved, live.policy, now)
    live.moved.clear()
    return True


def _lease(
    live: Live, job: Job, site: Site, lane: Lane, now: float, out: list[Instruction]
) -> None:
    job.number += 1
    block, queue = job.block, lane.line.queue
    lease = OpenLease(
        attempt=f"{block.id}.{job.index}.{job.number}",
        job=job,
        site=site,
        account=lane.account,
        size=(queue.cores_per_slot, queue.memory_mb),
        leased_at=now,
    )
    live.open_lease(lease)
    out.append(
        Lease(
            attempt=lease.attempt,
            block=block.id,
            experiment=block.experiment.id,
            index=job.index,
            number=job.number,
            range=job.range,
            worker=site.worker.id,
        )
    )
    if block.state is State.QUEUED:
        set_block(block, Move.LEASED, out, lease=lease)
        fly(live, block, now)
