"""Who goes first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backend.scheduler.core import policies, use
from backend.scheduler.core.events import Finished, Outcome, PolicySet, QueueSet, Ticked, WorkerSet
from backend.scheduler.core.instructions import Refuse, SetPolicy
from backend.scheduler.core.model import Right
from tests.core.farms import Story, block, ended, leased, queue, small_farm, submitted, worker

HOUR = 3600.0


def many(name: str, count: int, **more: str) -> list[object]:
    return [block(f"{name}{i}", **more) for i in range(count)]  # type: ignore[arg-type]


def user(name: str, count: int, *, priority: int = 0, slots: int = 100, at: float = 0.0) -> object:
    rights = {"Q1": Right(slots=slots, priority=priority)}
    return submitted(f"of {name}", *many(name, count), user=name, rights=rights, at=at)


def test_fifo_takes_what_was_submitted_first_whoever_it_is() -> None:
    farm = small_farm(slots=2)
    out = farm.at_once(user("late", 2, at=5, priority=9), user("early", 3, at=1))
    assert leased(out) == ["early0.0.1", "early1.0.1"]


def test_fifo_passes_over_what_cannot_run() -> None:
    farm = small_farm(slots=3)
    out = farm.at_once(user("limited", 3, slots=1, at=1), user("other", 2, at=2))
    assert leased(out) == ["limited0.0.1", "other0.0.1", "other1.0.1"]


def test_priority_goes_before_age() -> None:
    farm = small_farm(slots=2, policy="priority")
    out = farm.at_once(user("low", 2, at=1), user("high", 1, priority=1, at=2))
    assert leased(out) == ["high0.0.1", "low0.0.1"]


def test_among_equals_who_holds_nothing_goes_before_who_holds_something() -> None:
    farm = small_farm(slots=2, policy="priority")
    out = farm.at_once(user("many", 5, at=1), user("first", 1, at=2))
    assert leased(out) == ["many0.0.1", "first0.0.1"]


def test_whoever_waits_longer_than_the_bound_goes_before_every_priority() -> None:
    aged = {"priority": policies.priority_with(10 * HOUR)}
    farm = small_farm(slots=1, policy="priority", policies=aged)
    farm.at_once(user("high", 3, priority=5, at=1), user("low", 1, at=2))
    assert leased(farm.at_once(Ticked(), ended("high0.0.1"), at=1000 + 9 * HOUR)) == ["high1.0.1"]
    assert leased(farm.at_once(Ticked(), ended("high1.0.1"), at=1001 + 10 * HOUR)) == ["high2.0.1"]
    assert leased(farm.happens(ended("high2.0.1"))) == ["low0.0.1"]


def test_a_stream_of_high_priority_does_not_starve_a_low_one_beyond_the_bound() -> None:
    aged = {"priority": policies.priority_with(100.0)}
    farm = small_farm(slots=1, policy="priority", policies=aged)
    running = leased(farm.at_once(user("seed", 1, priority=1)))
    farm.at_once(user("low", 1, at=1))
    for second in range(1000):
        fresh = submitted(
            f"e{second}",
            block(f"h{second}"),
            user="high",
            at=1000.0 + second,
            rights={"Q1": Right(slots=9, priority=1)},
        )
        now = 1000.0 + second
        running = leased(farm.at_once(Ticked(), fresh, ended(running[0]), at=now))
        if running == ["low0.0.1"]:
            break
    assert 100 < second <= 102


def test_fair_share_gives_to_who_holds_least_of_their_right() -> None:
    farm = small_farm(slots=6, policy="fair-share")
    out = farm.at_once(user("two", 9, slots=2, at=1), user("four", 9, slots=4, at=2))
    assert [name[:-5] for name in leased(out)] == ["two", "four", "four", "two", "four", "four"]


def test_fair_share_remembers_recent_use() -> None:
    farm = small_farm(slots=1, policy="fair-share")
    farm.at_once(user("heavy", 3, at=1))
    farm.at_once(user("light", 1, at=2))
    assert leased(farm.happens(ended("heavy0.0.1"), at=2000)) == ["light0.0.1"]


def test_recent_use_fades() -> None:
    long_ago = use.add(use.NONE, 3600.0, 0.0)
    lately = use.add(use.NONE, 600.0, 7 * 86_400.0)
    assert lately > long_ago
    assert round(use.slot_seconds(long_ago, 86_400.0)) == 1800


@given(st.lists(st.tuples(st.floats(0.1, 1e6), st.floats(0, 1e10)), max_size=20))
def test_recent_use_is_the_decayed_sum_and_never_overflows(
    taken: list[tuple[float, float]],
) -> None:
    total = use.NONE
    for seconds, at in taken:
        total = use.add(total, seconds, at)
    end = max((at for _, at in taken), default=0.0)
    half = policies.HALF_LIFE_SECONDS
    exact = sum(seconds * 2.0 ** -min(1000.0, (end - at) / half) for seconds, at in taken)
    assert abs(use.slot_seconds(total, end) - exact) <= 1e-6 * exact


def test_one_users_hundred_thousand_jobs_do_not_keep_anothers_first_job_waiting() -> None:
    for policy in ("priority", "fair-share"):
        farm = small_farm(slots=10, policy=policy)
        farm.at_once(user("greedy", 10_000, slots=1000, at=1))
        farm.at_once(user("other", 1, at=2))
        assert leased(farm.happens(ended("greedy0.0.1"))) == ["other0.0.1"]


def test_the_policy_is_changed_while_running_and_holds_from_the_next_pass() -> None:
    farm = small_farm(slots=1)
    farm.at_once(user("low", 3, at=1), user("high", 1, priority=1, at=2))
    out = farm.at_once(PolicySet(policy="priority"), ended("low0.0.1"))
    assert SetPolicy(policy="priority") in out
    assert leased(out) == ["high0.0.1"]


def test_a_policy_that_does_not_exist_is_refused_by_name() -> None:
    (refusal,) = small_farm().happens(PolicySet(policy="lottery"))
    assert isinstance(refusal, Refuse)
    assert "'lottery'" in refusal.why
    assert "fair-share" in refusal.why


def test_ones_own_policy_is_a_function() -> None:
    def by_name(candidate: policies.Candidate, now: float) -> policies.Place:
        return (candidate.user, candidate.age)

    farm = Story(
        QueueSet(queue=queue(slots=2)),
        WorkerSet(worker=worker()),
        policy="by-name",
        policies={"by-name": by_name},
    )
    out = farm.at_once(user("zoe", 2, at=1), user("abe", 1, at=2))
    assert leased(out) == ["abe0.0.1", "zoe0.0.1"]


def test_a_job_handed_back_keeps_its_place() -> None:
    farm = small_farm(slots=1)
    farm.happens(WorkerSet(worker=worker("W2", cores=0)))
    farm.at_once(user("a", 2, at=1))
    report = Finished(attempt="a0.0.1", worker="W1", outcome=Outcome.RETURNED)
    assert leased(farm.happens(report)) == []
    assert leased(farm.happens(WorkerSet(worker=worker("W1")))) == ["a0.0.2"]
