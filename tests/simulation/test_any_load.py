"""What holds for every load, farm and policy."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.scheduler.core.model import Right
from backend.simulation import synthetic
from backend.simulation.load import BadLoadError, Job, Load, Site
from backend.simulation.measures import measure
from backend.simulation.replay import Run, replay

USERS = ("ann", "ben", "cy")
POLICIES = st.sampled_from(["fifo", "priority", "fair-share"])
SIZES = st.integers(1, 5)
#: whole seconds: sums and comparisons are exact
JOBS = st.lists(
    st.tuples(st.sampled_from(USERS), st.integers(0, 60), st.integers(1, 30), SIZES),
    min_size=1,
    max_size=25,
)
RIGHTS = st.dictionaries(
    st.sampled_from(USERS), st.builds(Right, slots=SIZES, priority=st.integers(0, 2))
)
SITES = st.builds(
    Site,
    workers=st.integers(1, 3),
    slots_per_worker=st.integers(1, 4),
    right=st.builds(Right, slots=SIZES),
    rights=RIGHTS,
)


def as_load(drawn: list[tuple[str, int, int, int]]) -> Load:
    jobs = [
        Job(number=n, user=user, submitted=float(at), seconds=float(length), slots=slots)
        for n, (user, at, length, slots) in enumerate(sorted(drawn, key=lambda row: row[1]))
    ]
    return Load(name="drawn", jobs=tuple(jobs))


@settings(deadline=None)
@given(drawn=JOBS, site=SITES, policy=POLICIES)
def test_work_is_conserved_and_no_slot_is_held_twice(
    drawn: list[tuple[str, int, int, int]], site: Site, policy: str
) -> None:
    load = as_load(drawn)
    run = replay(load, site, policy)
    assert_every_part_ran_once(run)
    assert_no_limit_exceeded(run)
    assert_nobody_waited_for_nothing(run)
    found = measure(run)
    assert found.utilisation * site.slots * found.makespan == pytest.approx(load.slot_seconds)
    assert 0 < found.fairness_of_slowdown <= 1 + 1e-9


def assert_every_part_ran_once(run: Run) -> None:
    assert Counter(part.job for part in run.parts) == {j.number: j.slots for j in run.load.jobs}
    by_number = {job.number: job for job in run.load.jobs}
    for part in run.parts:
        assert part.end - part.start == by_number[part.job].seconds
        assert part.start >= by_number[part.job].submitted
    for trip in run.trips:
        assert trip.parts_done == trip.job.slots
        assert trip.end == trip.last_start + trip.job.seconds
        assert 0 <= trip.first_start <= trip.last_start


def assert_no_limit_exceeded(run: Run) -> None:
    for moment in {part.start for part in run.parts}:  # what is held rises only at starts
        running = [part for part in run.parts if part.start <= moment < part.end]
        by_worker = Counter(part.worker for part in running)
        assert all(n <= run.site.slots_per_worker for n in by_worker.values())
        by_user = Counter(part.user for part in running)
        assert all(n <= run.site.right_of(user).slots for user, n in by_user.items())


def assert_nobody_waited_for_nothing(run: Run) -> None:
    """No part waits while a slot is free and its user may hold one more."""
    for moment, busy, _ in run.levels:
        if busy == run.site.slots:
            continue
        held = Counter(part.user for part in run.parts if part.start <= moment < part.end)
        assert sum(held.values()) == busy
        for trip in run.trips:
            if trip.job.submitted <= moment < trip.last_start:
                assert held[trip.job.user] >= run.site.right_of(trip.job.user).slots


LAWS = synthetic.Laws(seed=7, jobs=300, users=10, load=0.9, median_seconds=60.0)


@pytest.mark.parametrize("policy", ["fifo", "priority", "fair-share"])
def test_the_same_seed_gives_the_same_numbers(policy: str) -> None:
    site = Site(workers=2, slots_per_worker=4, right=Right(slots=4))
    first, second = (measure(replay(synthetic.make(LAWS, 8), site, policy)) for _ in range(2))
    assert first == second
    other = synthetic.make(replace(LAWS, seed=8), 8)
    assert measure(replay(other, site, policy)) != first


@given(
    seed=st.integers(0, 10_000),
    jobs=st.integers(1, 200),
    users=st.integers(1, 30),
    slots=st.integers(1, 64),
    offered=st.sampled_from([0.1, 0.5, 0.9, 1.5]),
)
def test_synthetic_loads_keep_their_laws(
    seed: int, jobs: int, users: int, slots: int, offered: float
) -> None:
    laws = synthetic.Laws(seed=seed, jobs=jobs, users=users, load=offered, median_seconds=30.0)
    load = synthetic.make(laws, slots)
    assert len(load.jobs) == jobs
    assert len(load.users) <= users
    assert [j.submitted for j in load.jobs] == sorted(j.submitted for j in load.jobs)
    assert all(1 <= j.slots <= slots and 1 <= j.seconds <= 86_400 for j in load.jobs)
    period = load.slot_seconds / (offered * slots)
    assert load.jobs[0].submitted >= 0
    assert load.jobs[-1].submitted <= math.ceil(period)


def test_a_few_users_ask_for_most() -> None:
    laws = synthetic.Laws(seed=1, jobs=20_000, users=100, load=0.9, median_seconds=60.0)
    asked = Counter(job.user for job in synthetic.make(laws, 32).jobs)
    busiest = sum(count for _, count in asked.most_common(20))
    assert 0.6 < busiest / 20_000 < 0.95


def test_more_users_leave_the_run_times_as_they_are() -> None:
    few, many = (synthetic.make(replace(LAWS, users=n), 8) for n in (3, 30))
    assert [job.seconds for job in few.jobs] == [job.seconds for job in many.jobs]


@pytest.mark.parametrize("wrong", [{"load": 0.0}, {"load": float("nan")}, {"median_seconds": -1}])
def test_laws_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadLoadError, match=f"needs {next(iter(wrong))} above 0"):
        synthetic.make(replace(LAWS, **wrong), 8)  # type: ignore[arg-type]
