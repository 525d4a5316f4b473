"""What a run was like, in figures.

- *wait*: seconds from submission until the last part of the job started.
- *bounded slowdown*: max(1, (end - submission) / max(run time, 10 s)); the bound keeps jobs of
  a second from ruling the mean (Feitelson et al., "Theory and Practice in Parallel Job
  Scheduling", JSSPP 1997).
- *utilisation*: busy slot-seconds over slots times the time from first submission to last end.
- *fairness of slowdown*: Jain's index over the users' mean bounded slowdowns.
- *fairness of shares*: Jain's index over slots held relative to the right, of the users who
  have something waiting; averaged over the time in which these are at least two.
- *p95*: the smallest value that at least 95 % of the values do not exceed.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from backend.simulation.replay import Run, Trip, jain

BOUND_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Many values in three."""

    mean: float
    median: float
    p95: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """One policy's figures."""

    policy: str
    jobs: int
    wait: Spread  #: seconds
    bounded_slowdown: Spread
    utilisation: float  #: 0 to 1
    fairness_of_slowdown: float  #: 0 to 1
    fairness_of_shares: float | None  #: 0 to 1; None: two users never waited at once
    makespan: float  #: seconds from the first submission to the last end
    decisions: int  #: of the core

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)


def measure(run: Run) -> Measures:
    """Return the figures of a run."""
    makespan = max(trip.end for trip in run.trips) - run.trips[0].job.submitted
    busy = math.fsum(part.end - part.start for part in run.parts)
    return Measures(
        policy=run.policy,
        jobs=len(run.trips),
        wait=spread([trip.wait for trip in run.trips]),
        bounded_slowdown=spread([bounded_slowdown(trip) for trip in run.trips]),
        utilisation=busy / (run.site.slots * makespan),
        fairness_of_slowdown=jain(list(slowdown_by_user(run).values())),
        fairness_of_shares=run.fair_share / run.fair_seconds if run.fair_seconds else None,
        makespan=makespan,
        decisions=run.decisions,
    )


def bounded_slowdown(trip: Trip) -> float:
    """Return how much longer a job took than on a farm of its own; at least 1."""
    spent = trip.end - trip.job.submitted
    return max(1.0, spent / max(trip.job.seconds, BOUND_SECONDS))


def slowdown_by_user(run: Run) -> dict[str, float]:
    """Return each user's mean bounded slowdown."""
    by_user: dict[str, list[float]] = defaultdict(list)
    for trip in run.trips:
        by_user[trip.job.user].append(bounded_slowdown(trip))
    return {user: statistics.fmean(values) for user, values in sorted(by_user.items())}


def spread(values: Sequence[float]) -> Spread:
    """Return mean, median and 95th percentile (nearest rank) of at least one value."""
    ordered = sorted(values)
    return Spread(
        mean=statistics.fmean(ordered),
        median=statistics.median(ordered),
        p95=ordered[math.ceil(0.95 * len(ordered)) - 1],
    )
