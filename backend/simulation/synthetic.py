"""Loads made by dice: few users ask for most, few jobs are most of the work.

The laws, each in one function below:

- *users*: a user's weight is Pareto-distributed with shape 1.16, at which a fifth of the users
  ask for about four fifths; every job picks its user by weight.
- *arrivals*: a Poisson process, given its number of events: times are uniform over the period in
  which the farm could do `load` times the work. So the offered load is exact, not in the mean.
- *run time*: log-normal, median `median_seconds`, sigma 1.5 (the mean is three medians), at
  least 1 s and at most a day.
- *size*: 1 slot in three jobs of four; else 2, 4 or 8, as sizes in the archives' traces are
  mostly powers of two; never more than the farm has.

One seed gives one load: each law has a stream of numbers of its own, so that with another number
of users the run times stay the same.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate

from backend.simulation.load import BadLoadError, Job, Load

PARETO_SHAPE = 1.16
RUN_TIME_SIGMA = 1.5
SHORTEST, LONGEST = 1.0, 86_400.0  #: seconds
SERIAL = 0.75  #: of all jobs
PARALLEL_SIZES = (2, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Laws:
    """What a synthetic load is made from."""

    seed: int
    jobs: int
    users: int
    load: float  #: work offered over work that the farm could do meanwhile; 1 = just full
    median_seconds: float


def make(laws: Laws, slots: int) -> Load:
    """Return the load for a farm with so many slots. Raises BadLoadError."""
    _check(laws)
    users = _users(laws)
    seconds = _run_times(laws)
    sizes = _sizes(laws, slots)
    work = sum(a * b for a, b in zip(seconds, sizes, strict=True))
    submitted = _arrivals(laws, period=work / (laws.load * slots))
    parts = zip(users, submitted, seconds, sizes, strict=True)
    return Load(
        name=f"synthetic load, seed {laws.seed}",
        jobs=tuple(
            Job(number=number, user=user, submitted=at, seconds=length, slots=size)
            for number, (user, at, length, size) in enumerate(parts, 1)
        ),
    )


def _check(laws: Laws) -> None:
    for name in ("jobs", "users", "load", "median_seconds"):
        value = getattr(laws, name)
        if not 0 < value < float("inf"):
            raise BadLoadError(f"a synthetic load needs {name} above 0, not {value}")


def _dice(laws: Laws, law: str) -> random.Random:
    return random.Random(f"{laws.seed} {law}")  # noqa: S311 - a load, not a secret


def _users(laws: Laws) -> list[str]:
    dice = _dice(laws, "users")
    names = [f"user{number:03}" for number in range(1, laws.users + 1)]
    weights = list(accumulate(dice.paretovariate(PARETO_SHAPE) for _ in names))
    return dice.choices(names, cum_weights=weights, k=laws.jobs)


def _run_times(laws: Laws) -> list[float]:
    dice = _dice(laws, "run times")
    drawn = (
        laws.median_seconds * dice.lognormvariate(0.0, RUN_TIME_SIGMA) for _ in range(laws.jobs)
    )
    return [round(min(LONGEST, max(SHORTEST, seconds)), 3) for seconds in drawn]


def _sizes(laws: Laws, slots: int) -> list[int]:
    dice = _dice(laws, "sizes")
    return [
        1 if dice.random() < SERIAL else min(slots, dice.choice(PARALLEL_SIZES))
        for _ in range(laws.jobs)
    ]


def _arrivals(laws: Laws, period: float) -> list[float]:
    dice = _dice(laws, "arrivals")
    return sorted(round(dice.uniform(0.0, period), 3) for _ in range(laws.jobs))
