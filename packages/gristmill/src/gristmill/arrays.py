"""Job arrays: which indices, and how many at once. Ranges, steps, lists and throttle."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gristmill.errors import BadValue

_PART = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """The indices of an array as ranges `(first, last, step)`, and its throttle.

    `throttle` is how many elements may run at once; None is no limit.
    """

    ranges: tuple[tuple[int, int, int], ...]
    throttle: int | None = None

    def __iter__(self) -> Iterator[int]:
        for first, last, step in self.ranges:
            yield from range(first, last + 1, step)

    def __len__(self) -> int:
        return sum(len(range(first, last + 1, step)) for first, last, step in self.ranges)

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and any(
            index in range(first, last + 1, step) for first, last, step in self.ranges
        )

    @property
    def single_range(self) -> tuple[int, int, int] | None:
        """`(first, last, step)` when the array is one range, which every manager can take."""
        return self.ranges[0] if len(self.ranges) == 1 else None

    def indices_text(self) -> str:
        """`0-99:2,120`: the form of Slurm and Torque, without the throttle."""
        return ",".join(_range_text(*part) for part in self.ranges)

    def __str__(self) -> str:
        return self.indices_text() + (f"%{self.throttle}" if self.throttle else "")


def _range_text(first: int, last: int, step: int) -> str:
    if first == last:
        return str(first)
    return f"{first}-{last}" if step == 1 else f"{first}-{last}:{step}"


def parse(value: ArraySpec | int | str | range | Iterable[int]) -> ArraySpec:
    """Read `"0-99:2%10"`, `"1,3,5-9"`, a count (`100` is 0-99), a range or a list of indices."""
    if isinstance(value, ArraySpec):
        return value
    if isinstance(value, str):
        return _parse_text(value.replace(" ", ""))
    indices = range(value) if isinstance(value, int) else sorted(set(value))
    if not indices or min(indices) < 0:
        raise BadValue(f"an array needs at least one index, none below 0; got {value!r}")
    return ArraySpec(tuple(_as_ranges(list(indices))))


def _parse_text(text: str) -> ArraySpec:
    indices, percent, limit = text.partition("%")
    if percent and not (limit.isdigit() and int(limit) > 0):
        raise BadValue(f"the throttle of array {text!r} must be a number above 0, as in '0-99%10'")
    ranges = tuple(_parse_part(part, text) for part in indices.split(","))
    spec = ArraySpec(ranges, int(limit) if percent else None)
    if len(set(spec)) != len(spec):
        raise BadValue(f"array {text!r} names an index twice")
    return spec


def _parse_part(part: str, whole: str) -> tuple[int, int, int]:
    match = _PART.fullmatch(part)
    if not match:
        raise BadValue(f"{whole!r} is not an array; write '0-99', '0-98:2', '1,3,5-9' or '0-99%10'")
    first = int(match[1])
    last = int(match[2] or first)
    step = int(match[3] or 1)
    if last < first or step < 1:
        raise BadValue(f"array {whole!r} is empty at {part!r}: first must not be above last")
    return first, last - (last - first) % step, step


def _as_ranges(indices: list[int]) -> Iterator[tuple[int, int, int]]:
    """The fewest ranges, found greedily: [1, 3, 5, 9] is 1-5:2 and 9."""
    start = 0
    while start < len(indices):
        if start + 1 == len(indices):
            yield indices[start], indices[start], 1
            return
        step = indices[start + 1] - indices[start]
        end = start + 1
        while end + 1 < len(indices) and indices[end + 1] - indices[end] == step:
            end += 1
        if end == start + 1 and step > 1:
            end = start  # two indices far apart read better as two numbers
        yield indices[start], indices[end], step if end > start else 1
        start = end + 1
