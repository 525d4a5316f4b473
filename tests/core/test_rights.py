"""What a user may hold: the table of the seed, reputation, and its limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.scheduler.core import rights
from backend.scheduler.core.model import Right
from tests.core.farms import queue, worker

#: GroupQueueRights on Q1: group -> (slots, priority)
Q1 = {
    "default": Right(slots=2, priority=0),
    "special": Right(slots=1, priority=1),
    "super": Right(slots=3, priority=1),
}


@pytest.mark.parametrize(
    ("user", "groups", "slots", "priority"),
    [
        ("A", ["default"], 2, 0),
        ("B", ["default", "super"], 3, 1),
        ("C", ["default", "special"], 2, 1),
    ],
)
def test_the_table_of_the_seed(user: str, groups: list[str], slots: int, priority: int) -> None:
    assert rights.joined(Q1[group] for group in groups) == Right(slots=slots, priority=priority)


@pytest.mark.parametrize(
    ("slots", "reputation", "total", "expected"),
    [
        (2, 100, 8, 2),
        (2, 200, 8, 4),
        (2, 150, 8, 3),
        (3, 50, 8, 1),
        (1, 1, 8, 1),  # never below the right of 1
        (2, 1000, 8, 8),  # capped at the slots over all workers
        (5, 100, 3, 3),
        (2, 100, 0, 1),  # no worker yet: may be chosen, and waits
        (0, 1000, 8, 0),  # reputation makes no right
    ],
)
def test_reputation_multiplies_and_the_queue_caps(
    slots: int, reputation: int, total: int, expected: int
) -> None:
    right = rights.with_reputation(Right(slots=slots, priority=2), reputation, total)
    assert right == Right(slots=expected, priority=2)


def test_queues_without_a_right_are_left_out() -> None:
    given_ = {"Q1": [Q1["default"]], "Q2": [Right(slots=0, priority=5)], "Q3": []}
    assert rights.held(given_, 100, {"Q1": 9, "Q2": 9, "Q3": 9}) == {"Q1": Q1["default"]}


def test_a_slot_share_stands_for_the_queues_own_number() -> None:
    workers = [worker("W1"), worker("W2", shares={"Q1": 1}), worker("W3", shares={"Q1": 0})]
    assert rights.total_slots(queue("Q1", slots=5), workers) == 6


@given(
    st.lists(st.builds(Right, slots=st.integers(0, 50), priority=st.integers(0, 9))),
    st.integers(0, 100_000),
    st.integers(0, 500),
)
def test_a_right_is_never_more_than_the_queue_nor_lost_to_reputation(
    given_: list[Right], reputation: int, total: int
) -> None:
    held = rights.held({"Q": given_}, reputation, {"Q": total})
    if any(right.slots for right in given_):
        assert 1 <= held["Q"].slots <= max(1, total)
        assert held["Q"].priority == max(right.priority for right in given_)
    else:
        assert held == {}
