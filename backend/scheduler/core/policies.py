"""Who goes first: a policy gives a candidate its place, and the smallest goes first.

A candidate stands for the waiting jobs of one user that need the same queue and environment;
within it the oldest goes first whatever the policy. A policy is any function from a Candidate
and the time to something that sorts; one's own is given by an entry point of the group
`gristmill.policies`. Places are computed anew when a candidate's oldest job or its held slots
change, and at every tick of the clock; so `now` may matter, to the second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log2
from typing import Any, Protocol

Place = tuple[Any, ...]  #: sorts; one policy's places compare with each other
Age = tuple[float, str, int, int]  #: submitted at, experiment, position of the block, job

AGEING_SECONDS = 86_400.0  #: whoever has waited longer goes first under `priority`
HALF_LIFE_SECONDS = 86_400.0  #: after so long, past use counts half under `fair-share`


class Candidate(Protocol):
    """The waiting jobs of one user in one queue and environment."""

    @property
    def user(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def age(self) -> Age:
        """Where its oldest job stands in the order of submission."""
        ...

    @property
    def waiting_since(self) -> float:
        """When the oldest job was queued."""
        ...

    @property
    def priority(self) -> int:
        """The priority of the user's right on the queue; higher is sooner."""
        ...

    @property
    def right(self) -> int:
        """How many slots of the queue the user may hold, at least 1."""
        ...

    @property
    def held(self) -> int:
        """How many slots of the queue the user holds now."""
        ...

    @property
    def recent_use(self) -> float:
        """log2 of the slot-seconds used lately, on a scale common to all; -inf for none."""
        ...


Policy = Callable[[Candidate, float], Place]


def fifo(candidate: Candidate, now: float) -> Place:
    """First come, first served."""
    return candidate.age


def priority_with(ageing: float) -> Policy:
    """Return the policy `priority` with this bound, in seconds, on what priority can cost."""

    def priority(candidate: Candidate, now: float) -> Place:
        """Highest priority first; among equals who holds nothing there; then the oldest.

        Who has waited longer than the ageing bound goes before all of these, oldest first.
        """
        if now - candidate.waiting_since > ageing:
            return (0, candidate.age)
        return (1, -candidate.priority, candidate.held > 0, candidate.age)

    return priority


priority = priority_with(AGEING_SECONDS)


def fair_share(candidate: Candidate, now: float) -> Place:
    """Least slots held relative to the right, then least recent use relative to it, then age."""
    right = candidate.right
    return (candidate.held / right, candidate.recent_use - log2(right), candidate.age)


BUILT_IN: Mapping[str, Policy] = {
    "fifo": fifo,
    "priority": priority,
    "fair-share": fair_share,
}
