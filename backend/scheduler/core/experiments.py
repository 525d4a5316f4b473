"""The life of an experiment, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from backend.scheduler.core import blocks


class State(StrEnum):
    """Where an experiment stands."""

    DRAFT = "draft"
    PENDING = "pending"
    RUNNING = "running"
    CANCELLING = "cancelling"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DELETING = "deleting"


FINAL = frozenset({State.DONE, State.FAILED, State.CANCELLED})
LIVE = frozenset({State.PENDING, State.RUNNING, State.CANCELLING, State.DELETING})


class Move(StrEnum):
    """What happens to an experiment; the words stand on the arrows of the drawing."""

    START = "start"
    FIRST_RUNS = "a block runs"
    ALL_DONE = "all blocks done"
    SOME_FAILED = "the rest done, some failed"
    STOP = "stop"
    AT_REST = "nothing runs any more"
    DELETE = "delete"


TRANSITIONS: dict[tuple[State, Move], State] = {
    (State.DRAFT, Move.START): State.PENDING,
    (State.DRAFT, Move.DELETE): State.DELETING,
    (State.PENDING, Move.FIRST_RUNS): State.RUNNING,
    (State.PENDING, Move.ALL_DONE): State.DONE,
    (State.PENDING, Move.SOME_FAILED): State.FAILED,
    (State.PENDING, Move.STOP): State.CANCELLING,
    (State.PENDING, Move.DELETE): State.DELETING,
    (State.RUNNING, Move.ALL_DONE): State.DONE,
    (State.RUNNING, Move.SOME_FAILED): State.FAILED,
    (State.RUNNING, Move.STOP): State.CANCELLING,
    (State.RUNNING, Move.DELETE): State.DELETING,
    (State.CANCELLING, Move.AT_REST): State.CANCELLED,
    (State.CANCELLING, Move.DELETE): State.DELETING,
    (State.DONE, Move.START): State.PENDING,
    (State.DONE, Move.DELETE): State.DELETING,
    (State.FAILED, Move.START): State.PENDING,
    (State.FAILED, Move.DELETE): State.DELETING,
    (State.CANCELLED, Move.START): State.PENDING,
    (State.CANCELLED, Move.DELETE): State.DELETING,
}


class IllegalMoveError(Exception):
    """An experiment was to make a move that its life does not have."""


def after(state: State, move: Move) -> State:
    """Return the state that a move leads to; IllegalMoveError if there is no such move."""
    following = TRANSITIONS.get((state, move))
    if following is None:
        raise IllegalMoveError(f"an experiment that is {state} cannot go on by “{move}”")
    return following


def before(state: State) -> frozenset[State]:
    """Return the states from which one move leads to this one."""
    return frozenset(a for (a, _), b in TRANSITIONS.items() if b is state)


def ending(states: Iterable[blocks.State]) -> Move:
    """Say how an experiment ends that nobody stopped, all of whose blocks are final."""
    succeeded = all(state in blocks.SUCCEEDED for state in states)
    return Move.ALL_DONE if succeeded else Move.SOME_FAILED


def mermaid() -> str:
    """Draw the life of an experiment as a Mermaid state diagram."""
    arrows = [f"    {a} --> {b}: {move}" for (a, move), b in TRANSITIONS.items()]
    return "\n".join(
        ["stateDiagram-v2", "    [*] --> draft", *arrows, "    deleting --> [*]: gone"]
    )
