"""How many decisions the scheduler's core makes a second with 100,000 jobs waiting.

A decision is a lease given, a start taken or an end taken; each comes with its instructions and
its changes of state. 200 users with 500 one-block experiments each share 4 queues on 50 workers
with 400 slots. Two ways of work are measured, with each policy:

- full passes: all running jobs end in one batch, and one pass fills 400 slots again;
- single events: every report is handled, and followed by a pass, on its own.

The reference, measured in the same run, pushes as many tuples on a heap as there are waiting
jobs, and pops them: the least that any order of them costs.

Times are CPU seconds of this process, so that what else runs on the machine does not matter.

    python bench/core.py [--jobs 100000]
"""

from __future__ import annotations

import argparse
import gc
import heapq
import json
import time
from collections import deque
from collections.abc import Callable

from backend.scheduler.core.events import Finished, Outcome, QueueSet, Started, Submitted, WorkerSet
from backend.scheduler.core.farm import Farm
from backend.scheduler.core.instructions import Instruction, Lease
from backend.scheduler.core.model import BlockKind, BlockSpec, Queue, Right, Submission, Worker

USERS, QUEUES, WORKERS, SLOTS = 200, 4, 50, 2  #: slots of each queue on each worker
PYTHON = ("Python", "3.11")


def farm_with(policy: str, jobs: int) -> tuple[Farm, deque[Lease], float]:
    """Return a farm with so many jobs submitted, what it leased, and the seconds it took."""
    farm = Farm(policy=policy)
    for number in range(QUEUES):
        farm.handle(QueueSet(queue=_queue(number)), 0.0)
    for number in range(WORKERS):
        farm.handle(WorkerSet(worker=_worker(number)), 0.0)
    submissions = [_submission(number) for number in range(jobs)]
    began = time.process_time()
    for submission in submissions:
        farm.handle(submission, 0.0)
    out = farm.schedule(0.0)
    seconds = time.process_time() - began
    return farm, deque(i for i in out if isinstance(i, Lease)), seconds


def _queue(number: int) -> Queue:
    return Queue(
        id=f"q{number}",
        name=f"q{number}",
        memory_mb=1000,
        time_seconds=3600,
        slots_per_worker=SLOTS,
        cores_per_slot=1,
        environments=frozenset({PYTHON}),
    )


def _worker(number: int) -> Worker:
    return Worker(
        id=f"w{number}",
        name=f"w{number}",
        cores=QUEUES * SLOTS,
        memory_mb=64_000,
        environments=frozenset({PYTHON}),
    )


def _submission(number: int) -> Submitted:
    rights = {f"q{q}": Right(slots=5 + number % 7, priority=number % 3) for q in range(QUEUES)}
    block = BlockSpec(
        id=f"b{number}",
        name="block",
        kind=BlockKind.BLOCK,
        inputs=(),
        queue=f"q{number % QUEUES}",
        environment=PYTHON,
        slots=1,
        key=f"k{number}",
    )
    return Submitted(
        submission=Submission(
            experiment=f"e{number}",
            user=f"u{number // QUEUES % USERS}",
            rights=rights,
            blocks=(block,),
            submitted_at=float(number),
        )
    )


def full_passes(farm: Farm, leases: deque[Lease], now: float) -> int:
    """End all that runs and fill the farm again; return the decisions made."""
    ending = len(leases)
    for lease in leases:
        farm.handle(Started(attempt=lease.attempt, worker=lease.worker), now)
        farm.handle(_end(lease), now)
    leases.clear()
    leases.extend(_leases(farm.schedule(now)))
    return 2 * ending + len(leases)


def single_events(farm: Farm, leases: deque[Lease], now: float) -> int:
    """Let one job start and end, each report with a pass; return the decisions made."""
    lease = leases.popleft()
    farm.handle(Started(attempt=lease.attempt, worker=lease.worker), now)
    given = _leases(farm.schedule(now))
    farm.handle(_end(lease), now)
    given += _leases(farm.schedule(now))
    leases.extend(given)
    return 2 + len(given)


def _end(lease: Lease) -> Finished:
    return Finished(attempt=lease.attempt, worker=lease.worker, outcome=Outcome.DONE)


def _leases(out: list[Instruction]) -> list[Lease]:
    return [i for i in out if isinstance(i, Lease)]


def rate(way: Callable[[Farm, deque[Lease], float], int], policy: str, jobs: int) -> float:
    """Return decisions a second, until half of the jobs are gone."""
    farm, leases, _ = farm_with(policy, jobs)
    gc.collect()
    gc.freeze()  # as a server does with a farm that it has restored
    decisions, now, until = 0, 1.0, 3 * jobs // 2
    began = time.process_time()
    while decisions < until and leases:
        now += 0.01
        decisions += way(farm, leases, now)
    seconds = time.process_time() - began
    gc.unfreeze()
    return decisions / seconds


def reference(jobs: int) -> float:
    """Return pushes and pops a second on a heap of so many tuples."""
    entries = [((i * 7919) % jobs, f"e{i}", i) for i in range(jobs)]
    began = time.process_time()
    heap: list[tuple[int, str, int]] = []
    for entry in entries:
        heapq.heappush(heap, entry)
    while heap:
        heapq.heappop(heap)
    return 2 * jobs / (time.process_time() - began)


def main() -> None:
    """Measure, print a table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=100_000)
    jobs = parser.parse_args().jobs
    base = max(reference(jobs) for _ in range(3))
    _, _, seconds = farm_with("fifo", jobs)
    print(f"{jobs:,} jobs of {USERS} users wait on {WORKERS} workers")
    print(f"submitting them and the first pass: {seconds:.2f} s ({jobs / seconds:,.0f} jobs/s)")
    print(f"reference (heap push or pop): {base:,.0f}/s\n")
    print(f"{'policy':<12} {'way':<14} {'decisions/s':>12} {'of reference':>13}")
    figures: dict[str, float] = {}
    for policy in ("fifo", "priority", "fair-share"):
        for way in (full_passes, single_events):
            figures[f"{policy} {way.__name__}"] = found = rate(way, policy, jobs)
            print(f"{policy:<12} {way.__name__:<14} {found:>12,.0f} {found / base:>13.3f}")
    ratios = {name: round(found / base, 4) for name, found in figures.items()}
    line = {
        "bench": "core",
        "jobs": jobs,
        "decisions_per_second": {name: round(found) for name, found in figures.items()},
        "reference_per_second": round(base),
        "ratio": ratios,
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
