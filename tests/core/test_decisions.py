"""What follows from what: small farms, one thing at a time."""

from __future__ import annotations

import pytest

from backend.scheduler.core import blocks, experiments
from backend.scheduler.core.decide import REST_SECONDS
from backend.scheduler.core.events import (
    AllStopped,
    CacheLost,
    Deleted,
    Finished,
    Outcome,
    Planned,
    QueueRemoved,
    QueueSet,
    RightsSet,
    Stopped,
    Ticked,
    WorkerHeard,
    WorkerLost,
    WorkerRemoved,
    WorkerSet,
)
from backend.scheduler.core.instructions import (
    Begin,
    Close,
    Lease,
    PlanSplit,
    Purge,
    Refuse,
    Revoke,
    SetBlock,
    SetExperiment,
    SetRights,
    SetWorker,
    SplitInto,
)
from backend.scheduler.core.model import Failure, FailureKind, Right, WorkerState
from tests.core.farms import (
    OTHER,
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


def test_a_submission_is_pending_its_sources_queued_and_the_first_leased() -> None:
    out = small_farm().happens(submitted("e", block("a"), block("b", "a")))
    assert out == [
        SetRights(user="ann", rights={"Q1": Right(slots=100), "Q2": Right(slots=100)}),
        SetExperiment(experiment="e", state=experiments.State.PENDING, submitted_at=0.0),
        SetBlock(block="a", experiment="e", state=blocks.State.QUEUED),
        Lease(
            attempt="a.0.1", block="a", experiment="e", index=0, number=1, range=None, worker="W1"
        ),
        SetBlock(
            block="a",
            experiment="e",
            state=blocks.State.ASSIGNED,
            attempt="a.0.1",
            worker="name of W1",
        ),
    ]


def test_a_start_makes_the_block_and_the_experiment_running() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a")))
    out = farm.happens(started("a.0.1"))
    assert Begin(attempt="a.0.1") in out
    assert states(out) == ["a running", "e running"]


def test_an_end_queues_what_waited_and_the_last_one_ends_the_experiment() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a"), block("b", "a")), started("a.0.1"))
    out = farm.happens(ended("a.0.1"))
    assert states(out) == ["a done", "b queued", "b assigned"]
    assert states(farm.happens(started("b.0.1"), ended("b.0.1"))) == [
        "b running",
        "b done",
        "e done",
    ]


def test_an_end_without_a_start_is_proof_of_the_start() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a")))
    assert states(farm.happens(ended("a.0.1"))) == ["a running", "e running", "a done", "e done"]


def test_everything_cached_ends_at_once_and_leases_nothing() -> None:
    out = small_farm().happens(
        submitted("e", block("a", key="k"), block("b", "a", key="l"), cached=("k", "l"))
    )
    assert states(out) == ["e pending", "a cached", "b cached", "e done"]
    assert leased(out) == []


def test_a_submission_that_crossed_with_the_end_of_its_key_finds_it() -> None:
    farm = small_farm()
    farm.happens(submitted("e1", block("a", key="k")), ended("a.0.1"))
    assert states(farm.happens(submitted("e2", block("b", key="k")))) == [
        "e2 pending",
        "b cached",
        "e2 done",
    ]
    farm.happens(CacheLost(keys=frozenset({"k"})))
    assert leased(farm.happens(submitted("e3", block("c", key="k")))) == ["c.0.1"]


def test_one_key_runs_once_and_the_other_is_cached_when_it_is_done() -> None:
    farm = small_farm()
    out = farm.happens(
        submitted("e1", block("a", key="k")), submitted("e2", block("b", key="k"), user="ben")
    )
    assert leased(out) == ["a.0.1"]
    assert "b cached" in states(farm.happens(ended("a.0.1")))


def test_a_key_is_not_kept_waiting_by_a_user_without_a_slot() -> None:
    farm = small_farm()
    farm.happens(submitted("e1", block("a", key="k"), rights={}, at=1))
    out = farm.happens(submitted("e2", block("b", key="k"), user="ben", at=2))
    assert leased(out) == ["b.0.1"]
    assert {"a cached", "e1 done"} <= set(states(farm.happens(ended("b.0.1"))))


@pytest.mark.parametrize("end", [Stopped(experiment="e1"), Deleted(experiment="e1")])
def test_when_the_one_that_computes_a_key_is_stopped_the_other_computes(end: Stopped) -> None:
    farm = small_farm()
    farm.happens(submitted("e1", block("a", key="k")), submitted("e2", block("b", key="k")))
    assert leased(farm.happens(end)) == []
    assert leased(farm.happens(ended("a.0.1", Outcome.CANCELLED))) == ["b.0.1"]


def test_when_the_one_that_computes_a_key_fails_the_other_tries_itself() -> None:
    farm = small_farm()
    farm.happens(submitted("e1", block("a", key="k")), submitted("e2", block("b", key="k")))
    out = farm.happens(ended("a.0.1", kind=FailureKind.TIME_LIMIT))
    assert leased(out) == ["b.0.1"]


# ---- splitting ----------------------------------------------------------------------------


def test_a_block_in_three_slots_is_three_jobs_over_disjoint_ranges() -> None:
    farm = small_farm()
    out = farm.happens(submitted("e", block("a", slots=3)))
    assert PlanSplit(block="a", slots=3) in out
    assert leased(out) == []
    ranges = ((0, 9), (10, 19), (20, 29))
    out = farm.happens(Planned(block="a", ranges=ranges))
    assert out[0] == SplitInto(block="a", ranges=ranges)
    assert leased(out) == ["a.0.1", "a.1.1", "a.2.1"]
    assert [i.range for i in out if isinstance(i, Lease)] == list(ranges)
    farm.happens(ended("a.1.1"), ended("a.0.1"))
    assert states(farm.happens(ended("a.2.1"))) == ["a done", "e done"]


@pytest.mark.parametrize(
    "ranges", [(), ((0, 9),), ((0, 9), (5, 12)), ((10, 19), (0, 9)), ((0, 1), (2, 3), (4, 5))]
)
def test_what_is_no_cut_runs_whole(ranges: tuple[tuple[int, int], ...]) -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a", slots=2)))
    out = farm.happens(Planned(block="a", ranges=ranges))
    assert out[0] == SplitInto(block="a", ranges=(None,))
    assert leased(out) == ["a.0.1"]


def test_one_job_that_fails_stops_the_others_before_the_block_fails() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a", slots=2), block("b", "a")))
    farm.happens(Planned(block="a", ranges=((0, 4), (5, 9))), started("a.0.1"), started("a.1.1"))
    out = farm.happens(ended("a.0.1", kind=FailureKind.ALGORITHM))
    assert Revoke(attempt="a.1.1", worker="W1") in out
    assert states(out) == ["a running"]
    out = farm.happens(ended("a.1.1", Outcome.CANCELLED))
    assert states(out) == ["a failed", "b skipped", "e failed"]


def test_a_lost_job_of_a_split_block_runs_again_while_the_others_go_on() -> None:
    farm = small_farm(slots=1)
    farm.happens(WorkerSet(worker=worker("W2")), QueueSet(queue=queue(slots=1)))
    farm.happens(submitted("e", block("a", slots=2)))
    farm.happens(Planned(block="a", ranges=((0, 4), (5, 9))))
    farm.happens(started("a.0.1", "W1"), started("a.1.1", "W2"))
    assert states(farm.happens(WorkerLost(worker="W2"))) == []
    out = farm.happens(ended("a.0.1"))
    assert leased(out) == ["a.1.2"]
    assert "a done" in states(farm.happens(ended("a.1.2")))


# ---- failures, losses, returns ------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        FailureKind.ALGORITHM,
        FailureKind.TIME_LIMIT,
        FailureKind.MEMORY_LIMIT,
        FailureKind.CRASHED,
        FailureKind.BAD_OUTPUT,
    ],
)
def test_these_failures_are_final(kind: FailureKind) -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a")), started("a.0.1"))
    assert states(farm.happens(ended("a.0.1", kind=kind))) == ["a failed", "e failed"]


def test_a_workers_own_failure_is_tried_again_after_a_rest_and_not_for_ever() -> None:
    farm = small_farm(max_attempts=2)
    farm.happens(submitted("e", block("a")))
    out = farm.happens(ended("a.0.1", kind=FailureKind.WORKER))
    assert states(out) == ["a queued"]
    assert leased(farm.happens(Ticked(), at=farm.now + REST_SECONDS - 1)) == []
    assert leased(farm.happens(Ticked(), at=farm.now + 1)) == ["a.0.2"]
    out = farm.happens(ended("a.0.2", kind=FailureKind.WORKER))
    assert states(out) == ["a failed", "e failed"]
    (failed,) = [i for i in out if isinstance(i, SetBlock)]
    assert failed.failure is not None
    assert "attempt 2 of 2" in failed.failure.message


def test_a_worker_that_fails_jobs_leaves_them_to_the_others() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a")), WorkerSet(worker=worker("W2")))
    out = farm.happens(ended("a.0.1", kind=FailureKind.WORKER))
    (lease,) = [i for i in out if isinstance(i, Lease)]
    assert (lease.attempt, lease.worker) == ("a.0.2", "W2")


def test_a_missing_environment_rests_that_environment_alone() -> None:
    farm = Story(QueueSet(queue=queue()))
    farm.happens(WorkerSet(worker=worker(environments=(OTHER, ("Python", "3.11")))))
    farm.happens(submitted("e", block("a")), ended("a.0.1", kind=FailureKind.ENVIRONMENT))
    assert leased(farm.happens(submitted("f", block("b", environment=OTHER)))) == ["b.0.1"]


def test_a_silent_workers_jobs_run_elsewhere_under_a_new_attempt() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a")), started("a.0.1"))
    farm.happens(WorkerSet(worker=worker("W2")))
    out = farm.happens(WorkerLost(worker="W1"))
    assert SetWorker(worker="W1", state=WorkerState.LOST) in out
    assert [i.outcome for i in out if isinstance(i, Close)] == [None]
    assert states(out) == ["a lost", "a queued", "a assigned"]
    assert leased(out) == ["a.0.2"]
    (refusal,) = farm.happens(ended("a.0.1"))
    assert isinstance(refusal, Refuse)


def test_a_job_lost_too_often_has_failed() -> None:
    farm = small_farm(max_attempts=2)
    farm.happens(submitted("e", block("a"), block("b", "a")))
    farm.happens(WorkerLost(worker="W1"), WorkerHeard(worker="W1"))
    out = farm.happens(WorkerLost(worker="W1"))
    assert states(out) == ["a lost", "a failed", "b skipped", "e failed"]


def test_a_worker_that_comes_back_is_given_work_again() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a")), WorkerLost(worker="W1"))
    out = farm.happens(WorkerHeard(worker="W1"))
    assert SetWorker(worker="W1", state=WorkerState.ONLINE) in out
    assert leased(out) == ["a.0.2"]
    assert farm.happens(WorkerHeard(worker="W1")) == []


def test_a_worker_that_registers_anew_keeps_only_what_it_still_runs() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a"), block("b")))
    out = farm.happens(WorkerSet(worker=worker(), running=frozenset({"a.0.1"})))
    assert [i.attempt for i in out if isinstance(i, Close)] == ["b.0.1"]
    assert leased(out) == ["b.0.2"]


def test_a_job_handed_back_counts_for_nothing_and_its_worker_drains() -> None:
    farm = small_farm(max_attempts=1)
    farm.happens(submitted("e", block("a")))
    out = farm.happens(ended("a.0.1", Outcome.RETURNED))
    assert SetWorker(worker="W1", state=WorkerState.DRAINING) in out
    assert states(out) == ["a queued"]
    assert leased(farm.happens(WorkerSet(worker=worker("W2")))) == ["a.0.2"]


def test_a_draining_worker_finishes_what_it_has_and_gets_nothing_new() -> None:
    farm = small_farm(slots=1)
    farm.happens(submitted("e", block("a"), block("b")))
    farm.happens(WorkerSet(worker=worker(state=WorkerState.DRAINING)))
    out = farm.happens(started("a.0.1"), ended("a.0.1"))
    assert "a done" in states(out)
    assert leased(out) == []


def test_a_worker_that_says_goodbye_leaves_no_slot_taken() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a")))
    out = farm.happens(WorkerSet(worker=worker(state=WorkerState.OFFLINE)))
    assert states(out) == ["a lost", "a queued"]
    assert farm.farm.state()["running"] == 0


def test_a_kill_that_nobody_asked_for_is_the_workers_failure() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a")))
    out = farm.happens(ended("a.0.1", Outcome.CANCELLED))
    assert states(out) == ["a queued"]


# ---- stopping and deleting ----------------------------------------------------------------


def test_a_stop_kills_what_runs_and_cancels_what_waits() -> None:
    farm = small_farm(slots=1)
    farm.happens(submitted("e", block("a"), block("b"), block("c", "a")), started("a.0.1"))
    out = farm.happens(Stopped(experiment="e"))
    assert states(out) == ["e cancelling", "a cancelling", "b cancelled", "c cancelled"]
    assert Revoke(attempt="a.0.1", worker="W1") in out
    assert farm.happens(Stopped(experiment="e")) == []
    out = farm.happens(ended("a.0.1", Outcome.CANCELLED))
    assert states(out) == ["a cancelled", "e cancelled"]


def test_a_stop_before_anything_runs_is_over_at_once() -> None:
    farm = small_farm(slots=0)
    farm.happens(submitted("e", block("a")))
    out = farm.happens(Stopped(experiment="e"))
    assert states(out) == ["e cancelling", "a cancelled", "e cancelled"]


def test_a_lost_worker_confirms_a_stop() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a")), started("a.0.1"), Stopped(experiment="e"))
    assert states(farm.happens(WorkerLost(worker="W1"))) == ["a cancelled", "e cancelled"]


def test_a_stopped_experiment_can_be_started_again_and_numbers_go_on() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a")), Stopped(experiment="e"))
    farm.happens(ended("a.0.1", Outcome.CANCELLED))
    out = farm.happens(submitted("e", block("a", attempts_before=1)))
    assert leased(out) == ["a.0.2"]


def test_an_experiment_cannot_be_submitted_twice() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a")))
    assert farm.happens(submitted("e", block("a"))) == [
        Refuse(experiment="e", why="the experiment is pending already")
    ]


def test_a_submission_for_a_queue_that_is_gone_is_refused() -> None:
    (refusal,) = small_farm().happens(submitted("e", block("a", queue="Q9")))
    assert isinstance(refusal, Refuse)
    assert "does not exist" in refusal.why


def test_deleting_what_runs_waits_for_its_end_and_then_purges() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a"), block("b", "a")), started("a.0.1"))
    out = farm.happens(Deleted(experiment="e"))
    assert states(out) == ["e deleting", "a cancelling", "b cancelled"]
    out = farm.happens(ended("a.0.1", Outcome.CANCELLED))
    assert out[-1] == Purge(experiment="e")


def test_deleting_what_does_not_run_purges_at_once() -> None:
    assert small_farm().happens(Deleted(experiment="e")) == [
        SetExperiment(experiment="e", state=experiments.State.DELETING),
        Purge(experiment="e"),
    ]


def test_stopping_what_is_not_live_is_refused() -> None:
    (refusal,) = small_farm().happens(Stopped(experiment="e"))
    assert isinstance(refusal, Refuse)


def test_all_experiments_are_stopped_in_one_event() -> None:
    farm = small_farm(slots=1)
    farm.happens(submitted("e", block("a")), submitted("f", block("b")))
    assert states(farm.happens(AllStopped())) == [
        "e cancelling",
        "a cancelling",
        "f cancelling",
        "b cancelled",
        "f cancelled",
    ]


# ---- the farm changes ---------------------------------------------------------------------


def test_rights_of_a_later_submission_replace_the_earlier_ones() -> None:
    farm = small_farm()
    farm.happens(submitted("e", *(block(f"a{i}") for i in range(3)), rights={"Q1": 1}))
    out = farm.happens(submitted("f", block("b"), rights={"Q1": 3}))
    assert leased(out) == ["a1.0.1", "a2.0.1"]


def test_a_lowered_right_stops_nothing_and_starts_nothing_until_there_is_room() -> None:
    farm = small_farm()
    farm.happens(submitted("e", *(block(f"a{i}") for i in range(6)), rights={"Q1": 4}))
    out = farm.happens(RightsSet(user="ann", rights={"Q1": Right(slots=2)}))
    assert leased(out) == []
    assert not [i for i in out if isinstance(i, Revoke | Close)]
    assert leased(farm.happens(ended("a0.0.1"))) == []
    assert leased(farm.happens(ended("a1.0.1"))) == []
    assert leased(farm.happens(ended("a2.0.1"))) == ["a4.0.1"]


def test_a_queue_or_worker_in_use_cannot_be_removed() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a")))
    for event in (QueueRemoved(queue="Q1"), WorkerRemoved(worker="W1")):
        (refusal,) = farm.happens(event)
        assert isinstance(refusal, Refuse)
    farm.happens(ended("a.0.1"))
    assert farm.happens(QueueRemoved(queue="Q1"), WorkerRemoved(worker="W1")) == []
    assert farm.farm.state()["queues"] == []


def test_cores_and_memory_of_a_worker_are_never_oversubscribed() -> None:
    farm = Story(
        QueueSet(queue=queue("Q1", slots=9, cores=1, memory=100)),
        QueueSet(queue=queue("Q2", slots=9, cores=3, memory=900)),
        WorkerSet(worker=worker(cores=5, memory=1000)),
    )
    blocks_ = [block("big", queue="Q2"), block("big2", queue="Q2"), block("s1"), block("s2")]
    assert leased(farm.happens(submitted("e", *blocks_))) == ["big.0.1", "s1.0.1"]


def test_a_failure_that_the_worker_does_not_explain_is_still_told() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a")))
    out = farm.happens(Finished(attempt="a.0.1", worker="W1", outcome=Outcome.FAILED))
    (failed,) = [i for i in out if isinstance(i, SetBlock)]
    assert failed.failure == Failure(
        kind=FailureKind.CRASHED, message="it failed, and the worker did not say why"
    )
