"""Where a block's input can be cut: pure, but for reading the starts of data units from files.

The rule is BEAT's: the starts of data units that all synchronised inputs have in common are the
places to cut; cut greedily so that each part has about last/n units; there may be fewer parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

Range = tuple[int, int]


def split_ranges(inputs: Sequence[Sequence[tuple[int, int]]], parts: int) -> tuple[Range, ...]:
    """Cut synchronised inputs, each a list of (start, end) of its units, into at most `parts`.

    Ranges are disjoint, in order, both ends included, and cover all units. Empty when there is
    nothing to cut (no inputs, or one of them has no unit).

    >>> split_ranges([[(i, i) for i in range(9)]], 4)
    ((0, 2), (3, 4), (5, 6), (7, 8))
    """
    if not inputs or any(not units for units in inputs):
        return ()
    starts = sorted(set.intersection(*({start for start, _ in units} for units in inputs)))
    last = min(units[-1][1] for units in inputs)
    if not starts or starts[0] != min(units[0][0] for units in inputs):
        return ()
    cuts = _greedy_cuts(starts, last, parts)
    edges = [*cuts, last + 1]
    return tuple((first, after - 1) for first, after in pairwise(edges))


def _greedy_cuts(starts: list[int], last: int, parts: int) -> list[int]:
    """Return the first unit of each part."""
    cuts = [starts[0]]
    total = last + 1 - starts[0]
    for start in starts[1:]:
        if len(cuts) == parts:
            break
        if start - starts[0] >= total * len(cuts) / parts:
            cuts.append(start)
    return cuts


def unit_bounds(path: Path) -> list[tuple[int, int]]:
    """Return (start, end) of every data unit of an Arrow file, memory-mapped."""
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        bounds: list[tuple[int, int]] = []
        for index in range(reader.num_record_batches):
            batch = reader.get_batch(index)
            batch.validate()  # written beside user code: no offset is taken on trust
            starts = batch.column("start").to_pylist()
            bounds += zip(starts, batch.column("end").to_pylist(), strict=True)
        return bounds
