"""Tiny loads whose waits a person can work out."""

from __future__ import annotations

import pytest

from backend.scheduler.core.model import Right
from backend.simulation.load import BadLoadError, Job, Load, Site
from backend.simulation.measures import bounded_slowdown, measure, spread
from backend.simulation.replay import Run, jain, replay


def job(number: int, user: str, at: float, seconds: float, slots: int = 1) -> Job:
    return Job(number=number, user=user, submitted=at, seconds=seconds, slots=slots)


def load(*jobs: Job) -> Load:
    return Load(name="by hand", jobs=jobs)


def site(slots: int, workers: int = 1, right: int | None = None, **rights: Right) -> Site:
    return Site(
        workers=workers,
        slots_per_worker=slots,
        right=Right(slots=right or slots * workers),
        rights=rights,
    )


def waits(run: Run) -> list[float]:
    return [trip.wait for trip in run.trips]


#: One slot. Ann holds it until 100; then her second job, cy's and ben's wait, in this order.
RACE = load(job(1, "ann", 0, 100), job(2, "ann", 1, 10), job(3, "cy", 2, 10), job(4, "ben", 3, 10))
ONE_SLOT = site(1, ben=Right(slots=1, priority=1))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fifo", [0, 99, 108, 117]),  # starts 0, 100, 110, 120
        ("priority", [0, 109, 118, 97]),  # ben first, then by age: starts 0, 110, 120, 100
        ("fair-share", [0, 119, 98, 107]),  # ann has used the most: starts 0, 120, 100, 110
    ],
)
def test_three_policies_give_three_orders(policy: str, expected: list[float]) -> None:
    assert waits(replay(RACE, ONE_SLOT, policy)) == expected


def test_all_figures_of_the_race_under_fifo() -> None:
    found = measure(replay(RACE, ONE_SLOT, "fifo"))
    assert (found.wait.mean, found.wait.median, found.wait.p95) == (81.0, 103.5, 117.0)
    slowdowns = [1.0, 10.9, 11.8, 12.7]
    assert found.bounded_slowdown.mean == pytest.approx(sum(slowdowns) / 4)
    assert found.utilisation == 1.0
    assert found.makespan == 130.0
    ann, cy, ben = (1.0 + 10.9) / 2, 11.8, 12.7
    assert found.fairness_of_slowdown == pytest.approx(
        (ann + cy + ben) ** 2 / (3 * (ann**2 + cy**2 + ben**2))
    )
    # Two or more wait from 2 to 110. From 2 on ann has the slot: shares 1, 0 of ann and cy, from
    # 3 on 1, 0, 0 with ben; from 100 on ann's second job runs, and cy and ben, 0, 0, are equal.
    assert found.fairness_of_shares == pytest.approx((1 * 1 / 2 + 97 * 1 / 3 + 10 * 1) / 108)
    assert found.decisions == 3 * 4


def test_a_users_right_holds() -> None:
    run = replay(
        load(*(job(n, "ann", 0, 10) for n in range(4)), job(5, "ben", 0, 10)),
        site(4, right=2),
        "fifo",
    )
    assert waits(run) == [0, 0, 10, 10, 0]


def test_a_job_larger_than_the_room_runs_in_waves() -> None:
    run = replay(load(job(1, "ann", 5, 10, slots=5), job(2, "ben", 6, 1)), site(2), "fifo")
    assert [(t.first_start, t.last_start, t.end) for t in run.trips] == [(5, 25, 35), (25, 25, 26)]


def test_work_is_spread_over_workers() -> None:
    run = replay(load(job(1, "ann", 0, 10, slots=4)), site(2, workers=2), "fair-share")
    assert sorted(part.worker for part in run.parts) == ["worker0"] * 2 + ["worker1"] * 2
    assert waits(run) == [0]


def test_short_jobs_have_a_bounded_slowdown() -> None:
    run = replay(load(job(1, "ann", 0, 10), job(2, "ann", 0, 1)), site(1), "fifo")
    assert [bounded_slowdown(trip) for trip in run.trips] == [1.0, 1.1]


def test_priority_ages() -> None:
    day = 86_400.0
    jobs = [job(1, "ann", 0, day + 100), job(2, "low", 10, 1), job(3, "ben", day + 50, 1)]
    waited_long = replay(load(*jobs), site(1, ben=Right(slots=1, priority=1)), "priority")
    assert waits(waited_long) == [0, day + 90, 51]


def test_a_policy_that_is_not_there_is_named() -> None:
    with pytest.raises(BadLoadError, match="no policy 'lottery'; there are fair-share, fifo, prio"):
        replay(RACE, ONE_SLOT, "lottery")


def test_a_policy_of_ones_own_is_used() -> None:
    run = replay(RACE, ONE_SLOT, "youngest", {"youngest": lambda c, now: (-c.age[0],)})
    assert waits(run) == [0, 119, 108, 97]


def test_jain() -> None:
    assert jain([2.0, 2.0, 2.0]) == 1.0
    assert jain([1.0, 0.0, 0.0, 0.0]) == 0.25
    assert jain([0.0, 0.0]) == 1.0


def test_p95_is_the_nearest_rank() -> None:
    assert spread([float(n) for n in range(1, 101)]).p95 == 95.0
    assert spread([float(n) for n in range(1, 11)]).p95 == 10.0
    assert spread([7.0]) == spread([7.0, 7.0, 7.0])
