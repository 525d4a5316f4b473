"""What other platforms fell into (slots, pools, cancelling), tried on ours.

The numbers are those of the pitfalls in the project's design notes; the names are of the public
threads that tell of them.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backend.scheduler.core.events import (
    Deleted,
    Outcome,
    Planned,
    PolicySet,
    QueueSet,
    RightsSet,
    Stopped,
    Ticked,
    WorkerLost,
    WorkerSet,
)
from backend.scheduler.core.instructions import Lease, Refuse, SetRights
from backend.scheduler.core.model import Right
from tests.core.farms import (
    Story,
    block,
    ended,
    leased,
    queue,
    small_farm,
    started,
    states,
    submitted,
    worker,
)


@given(st.permutations(range(10)), st.sets(st.integers(0, 9)))
def test_01_blocks_of_three_slots_count_as_three(order: list[int], stop: set[int]) -> None:
    """airflow#15399: three-slot blocks counted as one; open slots went below zero."""
    farm = small_farm(slots=6)
    for number in order:
        farm.happens(submitted(f"e{number}", block(f"b{number}", slots=3), at=number))
        farm.happens(Planned(block=f"b{number}", ranges=((0, 0), (1, 1), (2, 2))))
        assert farm.farm.state()["queues"][0]["slots_used"] <= 6
    for number in stop:
        farm.happens(Stopped(experiment=f"e{number}"))
        assert farm.farm.state()["queues"][0]["slots_used"] <= 6
    while held := list(farm.farm.leases()):
        revoked = set(farm.farm.revoked())
        lease = held[0]
        outcome = Outcome.CANCELLED if lease.attempt in revoked else Outcome.DONE
        farm.happens(ended(lease.attempt, outcome))
        assert farm.farm.state()["queues"][0]["slots_used"] <= 6
    state = farm.farm.state()
    assert (state["running"], state["waiting"], state["experiments"]) == (0, 0, 0)


def test_03_a_queue_below_its_use_does_not_stop_another() -> None:
    """airflow PR#23143: one pool with negative open slots stopped other pools."""
    farm = Story(
        QueueSet(queue=queue("Q1", slots=4)),
        QueueSet(queue=queue("Q2", slots=4)),
        WorkerSet(worker=worker()),
    )
    farm.happens(submitted("e", *(block(f"a{i}") for i in range(6))))
    farm.happens(QueueSet(queue=queue("Q1", slots=1)))
    assert leased(farm.happens(submitted("f", block("b", queue="Q2"), at=1))) == ["b.0.1"]


def test_04_a_full_queue_of_high_priority_does_not_hide_a_free_one() -> None:
    """airflow#45636: the top N by priority were all of a full pool."""
    farm = Story(
        QueueSet(queue=queue("Q1", slots=1)),
        QueueSet(queue=queue("Q2", slots=20)),
        WorkerSet(worker=worker(cores=100, memory=100_000)),
        policy="priority",
    )
    high, low = Right(slots=5000, priority=2), Right(slots=5000, priority=1)
    farm.happens(
        submitted("e", *(block(f"a{i}") for i in range(1000)), rights={"Q1": high}),
    )
    out = farm.happens(
        submitted(
            "f", *(block(f"b{i}", queue="Q2") for i in range(100)), rights={"Q2": low}, user="ben"
        )
    )
    assert len(leased(out)) == 20


def test_05_one_huge_experiment_at_its_limit_does_not_hide_the_others() -> None:
    """airflow#19622: a window of the first N saw only blocks that could not run."""
    farm = small_farm(slots=50)
    farm.happens(submitted("e", *(block(f"a{i}") for i in range(5000)), rights={"Q1": 10}))
    assert leased(farm.happens(submitted("f", block("b"), user="ben", at=1))) == ["b.0.1"]


def test_09_two_equal_users_and_an_odd_slot_do_not_oscillate() -> None:
    """kueue#3779: fair share and preemption without end. Nothing here is ever preempted."""
    farm = small_farm(slots=3, policy="fair-share")
    for user in ("ann", "ben"):
        farm.happens(submitted(f"of {user}", *(block(f"{user}{i}") for i in range(5)), user=user))
    for _ in range(100):
        assert farm.happens(Ticked(), at=farm.now + 60) == []


@given(right=st.integers(1, 4), on_worker=st.integers(1, 4), cores=st.integers(1, 4))
def test_11_limits_of_every_kind_together_still_let_things_run(
    right: int, on_worker: int, cores: int
) -> None:
    """dagster#25743: two kinds of limits met, and the queue stalled though slots were free."""
    farm = Story(QueueSet(queue=queue(slots=on_worker)), WorkerSet(worker=worker(cores=cores)))
    out = farm.happens(submitted("e", *(block(f"a{i}") for i in range(8)), rights={"Q1": right}))
    running, total = leased(out), 0
    assert len(running) == min(right, on_worker, cores)
    while running:
        total += 1
        running = running[1:] + leased(farm.happens(ended(running[0])))
    assert total == 8


def test_13_the_priority_that_is_held_is_the_one_that_was_set() -> None:
    """prefect PR#9798: the stored priority differed from what was set."""
    rights = {"Q1": Right(slots=1, priority=20)}
    out = small_farm().happens(RightsSet(user="ann", rights=rights))
    assert out == [SetRights(user="ann", rights=rights)]


def test_14_a_cancelled_block_gives_its_slot_back() -> None:
    """prefect#17563: cancelled runs kept their slot, and a limit of 1 was dead for ever."""
    farm = small_farm(slots=1)
    farm.happens(submitted("e", block("a")), submitted("f", block("b"), at=1), started("a.0.1"))
    farm.happens(Stopped(experiment="e"))
    assert leased(farm.happens(ended("a.0.1", Outcome.CANCELLED))) == ["b.0.1"]


def test_14_also_when_the_worker_dies_during_the_cancel() -> None:
    farm = small_farm(slots=1)
    farm.happens(submitted("e", block("a")), submitted("f", block("b"), at=1), started("a.0.1"))
    farm.happens(Stopped(experiment="e"), WorkerSet(worker=worker("W2")))
    out = farm.happens(WorkerLost(worker="W1"))
    assert "e cancelled" in states(out)
    assert farm.farm.state()["running"] == 1  # b, on W2


def test_15_deleting_what_runs_leaves_no_slot_taken() -> None:
    """dagster PR#16772: deleting a run left its slots taken."""
    farm = small_farm(slots=1)
    farm.happens(submitted("e", block("a")), submitted("f", block("b"), at=1), started("a.0.1"))
    assert leased(farm.happens(Deleted(experiment="e"))) == []  # its process is still there
    assert leased(farm.happens(ended("a.0.1", Outcome.CANCELLED))) == ["b.0.1"]


def test_16_cancelled_is_said_only_when_the_process_is_gone() -> None:
    """prefect#17482: "Cancelled" was shown while the process went on."""
    farm = small_farm()
    farm.happens(submitted("e", block("a")), started("a.0.1"))
    assert states(farm.happens(Stopped(experiment="e"))) == ["e cancelling", "a cancelling"]
    for _ in range(10):
        assert farm.happens(Ticked(), at=farm.now + 60) == []
    out = farm.happens(ended("a.0.1", Outcome.CANCELLED))
    assert states(out) == ["a cancelled", "e cancelled"]


def test_17_late_and_double_reports_change_nothing() -> None:
    """airflow#45925: marked failed, then turned green by a late report."""
    farm = small_farm()
    farm.happens(submitted("e", block("a")), started("a.0.1"), ended("a.0.1"))
    for outcome in Outcome:
        (refusal,) = farm.happens(ended("a.0.1", outcome))
        assert isinstance(refusal, Refuse)
    farm.happens(submitted("f", block("b")), started("b.0.1"), Stopped(experiment="f"))
    farm.happens(ended("b.0.1", Outcome.CANCELLED))
    (refusal,) = farm.happens(ended("b.0.1"))
    assert isinstance(refusal, Refuse)


def test_17_done_while_cancelling_confirms_the_cancel() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a")), started("a.0.1"), Stopped(experiment="e"))
    assert states(farm.happens(ended("a.0.1"))) == ["a cancelled", "e cancelled"]


def test_a_policy_change_loses_nobody() -> None:
    farm = small_farm(slots=2)
    farm.happens(submitted("e", *(block(f"a{i}") for i in range(20))))
    count = 2
    for turn in range(30):
        name = ("fifo", "priority", "fair-share")[turn % 3]
        held = next(iter(farm.farm.leases()), None)
        if held is None:
            break
        out = farm.happens(PolicySet(policy=name), ended(held.attempt))
        count += sum(isinstance(i, Lease) for i in out)
    assert count == 20
