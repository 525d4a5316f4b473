"""What happened to a block, told line by line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Line:
    """One thing that happened or was decided."""

    time: float  #: seconds since the epoch
    text: str
