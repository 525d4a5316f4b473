"""The life of a block, and nothing else. No clock, no database, no network."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a block stands; the words are those of the page, the API and the database."""

    BLOCKED = "blocked"  # waits for inputs
    QUEUED = "queued"  # waits for a slot
    ASSIGNED = "assigned"  # leased to a worker
    RUNNING = "running"  # the worker reported that the process started
    LOST = "lost"  # its worker went silent; will be queued again
    CANCELLING = "cancelling"  # until the process tree is gone or the lease is fenced
    DONE = "done"
    CACHED = "cached"  # done, from the cache
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"  # something upstream failed


FINAL = frozenset({State.DONE, State.CACHED, State.FAILED, State.CANCELLED, State.SKIPPED})
SUCCEEDED = frozenset({State.DONE, State.CACHED})  #: its outputs can be read


class Move(StrEnum):
    """What happens to a block; the words stand on the arrows of the drawing."""

    READY = "inputs done"
    HIT = "key in cache"
    LEASED = "leased"
    STARTED = "started"
    FINISHED = "finished"
    FAILED = "failed"
    SILENT = "worker silent"
    RETRIED = "next attempt"
    GIVEN_UP = "last attempt lost"
    RETURNED = "handed back"
    STOPPED = "stop"
    GONE = "process tree gone or fenced"
    UPSTREAM = "something upstream failed"


TRANSITIONS: dict[tuple[State, Move], State] = {
    (State.BLOCKED, Move.READY): State.QUEUED,
    (State.BLOCKED, Move.HIT): State.CACHED,
    (State.BLOCKED, Move.UPSTREAM): State.SKIPPED,
    (State.BLOCKED, Move.STOPPED): State.CANCELLED,  # nothing runs: nothing to wait for
    (State.QUEUED, Move.HIT): State.CACHED,
    (State.QUEUED, Move.LEASED): State.ASSIGNED,
    (State.QUEUED, Move.STOPPED): State.CANCELLED,
    (State.ASSIGNED, Move.STARTED): State.RUNNING,
    (State.ASSIGNED, Move.FAILED): State.FAILED,  # it could not be started
    (State.ASSIGNED, Move.RETURNED): State.QUEUED,
    (State.ASSIGNED, Move.SILENT): State.LOST,
    (State.ASSIGNED, Move.STOPPED): State.CANCELLING,
    (State.RUNNING, Move.FINISHED): State.DONE,
    (State.RUNNING, Move.FAILED): State.FAILED,
    (State.RUNNING, Move.RETURNED): State.QUEUED,
    (State.RUNNING, Move.SILENT): State.LOST,
    (State.RUNNING, Move.STOPPED): State.CANCELLING,
    (State.LOST, Move.RETRIED): State.QUEUED,
    (State.LOST, Move.GIVEN_UP): State.FAILED,
    (State.CANCELLING, Move.GONE): State.CANCELLED,
}


class IllegalMoveError(Exception):
    """A block was to make a move that its life does not have."""


def after(state: State, move: Move) -> State:
    """Return the state that a move leads to; IllegalMoveError if there is no such move."""
    following = TRANSITIONS.get((state, move))
    if following is None:
        raise IllegalMoveError(f"a block that is {state} cannot go on by “{move}”")
    return following


def mermaid() -> str:
    """Draw the life of a block as a Mermaid state diagram."""
    arrows = [f"    {a} --> {b}: {move}" for (a, move), b in TRANSITIONS.items()]
    ends = [f"    {state} --> [*]" for state in State if state in FINAL]
    return "\n".join(["stateDiagram-v2", "    [*] --> blocked", *arrows, *ends])
