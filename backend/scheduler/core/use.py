"""Recent use of a queue by a user: slot-seconds that halve with every half-life.

Kept as log2 of `sum(seconds * 2 ** (time / half-life))`: everybody's use fades by the same
factor, so the order of two users changes only when one of them uses something, and nothing has
to be recomputed as time goes by. The logarithm keeps it from overflowing.
"""

from __future__ import annotations

from math import exp2, inf, log2

from backend.scheduler.core.policies import HALF_LIFE_SECONDS

NONE = -inf


def add(use: float, slot_seconds: float, at: float) -> float:
    """Return the use with so many more slot-seconds, taken at `at`."""
    if slot_seconds <= 0:
        return use
    more = log2(slot_seconds) + at / HALF_LIFE_SECONDS
    high, low = max(use, more), min(use, more)
    return high + log2(1 + exp2(low - high))


def slot_seconds(use: float, at: float) -> float:
    """Return the use as the slot-seconds that it still counts for at `at`."""
    return exp2(use - at / HALF_LIFE_SECONDS)
