"""The life of an experiment, and what follows for its blocks when one of them changes."""

from __future__ import annotations

from enum import StrEnum


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
