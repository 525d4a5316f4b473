"""Why a block waits: the first constraint that binds, with its numbers."""

from __future__ import annotations

from backend.scheduler.core.events import QueueSet, RightsSet, WorkerSet
from backend.scheduler.core.explain import Constraint, Explanation
from backend.scheduler.core.model import FailureKind, WorkerState
from tests.core.farms import (
    OTHER,
    Story,
    block,
    ended,
    queue,
    small_farm,
    started,
    submitted,
    worker,
)


def why(farm: Story, name: str) -> Explanation:
    found = farm.farm.explain(name, farm.now)
    assert found is not None
    return found


def test_inputs() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a"), block("b", "a")), started("a.0.1"))
    found = why(farm, "b")
    assert found.constraint is Constraint.INPUTS
    assert found.message == "waits for “block a” (running)"
    assert found.numbers == {"missing": 1, "inputs": 1}


def test_the_same_key_elsewhere() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a", key="k")), submitted("f", block("b", key="k")))
    assert why(farm, "b").constraint is Constraint.SAME_KEY


def test_the_cut() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a", slots=3)))
    assert why(farm, "a").constraint is Constraint.CUTTING


def test_the_right() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a"), block("b"), block("c"), rights={"Q1": 2}))
    found = why(farm, "c")
    assert found.constraint is Constraint.RIGHT
    assert found.message == "the right on queue Q1: 2 of 2 in use"
    assert found.numbers == {"right": 2, "held": 2, "queue": "Q1"}


def test_no_right_any_more() -> None:
    farm = small_farm(slots=1)
    farm.happens(submitted("e", block("a"), block("b")), RightsSet(user="ann", rights={}))
    found = why(farm, "b")
    assert found.constraint is Constraint.RIGHT
    assert "no right on queue Q1" in found.message


def test_no_worker() -> None:
    farm = Story(QueueSet(queue=queue()))
    farm.happens(submitted("e", block("a")))
    assert why(farm, "a").constraint is Constraint.WORKER
    farm.happens(WorkerSet(worker=worker(state=WorkerState.DRAINING)))
    assert why(farm, "a").numbers == {"workers": 1, "draining": 1}


def test_no_environment() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a", environment=OTHER)))
    found = why(farm, "a")
    assert found.constraint is Constraint.ENVIRONMENT
    assert "R (4)" in found.message


def test_the_queue() -> None:
    farm = small_farm(slots=2)
    farm.happens(submitted("e", *(block(f"a{i}") for i in range(5))))
    found = why(farm, "a4")
    assert found.constraint is Constraint.QUEUE
    assert found.message == "queue Q1 is full: 2 of 2 in use"
    assert found.numbers == {"slots": 2, "used": 2, "ahead": 2}


def test_a_queue_without_slots() -> None:
    farm = small_farm(slots=0)
    farm.happens(submitted("e", block("a")))
    assert "has no slots on the workers" in why(farm, "a").message


def test_cores() -> None:
    farm = Story(QueueSet(queue=queue(cores=3)), WorkerSet(worker=worker(cores=4)))
    farm.happens(submitted("e", block("a"), block("b")))
    found = why(farm, "b")
    assert found.constraint is Constraint.CORES
    assert found.numbers == {"needed": 3, "free": 1, "largest": 4}
    assert found.would_start == "other jobs on such a worker end"


def test_memory_that_no_worker_has() -> None:
    farm = Story(QueueSet(queue=queue(memory=9000)), WorkerSet(worker=worker(memory=8000)))
    farm.happens(submitted("e", block("a")))
    found = why(farm, "a")
    assert found.constraint is Constraint.MEMORY
    assert "none is large enough" in found.would_start


def test_a_resting_worker() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a")), ended("a.0.1", kind=FailureKind.WORKER))
    assert why(farm, "a").constraint is Constraint.RESTING


def test_what_runs_waits_for_nothing() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a")), started("a.0.1"))
    found = why(farm, "a")
    assert found.constraint is Constraint.NONE
    assert found.message == "it is running on name of W1"


def test_what_is_not_live_is_not_explained() -> None:
    assert small_farm().farm.explain("nobody", 0.0) is None


def test_remarks_tell_what_no_row_tells() -> None:
    farm = small_farm()
    farm.happens(submitted("e", block("a", key="k")), submitted("f", block("b", key="k")))
    assert [line.text for line in farm.farm.remarks("b")] == [
        "waits: another block computes the same"
    ]
    farm.happens(started("a.0.1"), started("a.0.1"), ended("a.0.9"))
    assert "refused" in farm.farm.remarks("a")[-1].text
