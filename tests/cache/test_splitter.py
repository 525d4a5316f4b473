"""Where blocks are cut: BEAT's measured cases."""

import pyarrow as pa
import pytest

from backend.app.cache.splitter import split_ranges, unit_bounds


def units(*starts, end):
    after = [*starts[1:], end + 1]
    return [(s, e - 1) for s, e in zip(starts, after, strict=True)]


@pytest.mark.parametrize(
    ("inputs", "parts", "ranges"),
    [
        ([units(*range(9), end=8)], 4, ((0, 2), (3, 4), (5, 6), (7, 8))),
        ([units(*range(9), end=8)], 12, tuple((i, i) for i in range(9))),
        ([units(0, 5, 10, end=14)], 2, ((0, 9), (10, 14))),
        ([units(0, 5, 10, end=14)], 5, ((0, 4), (5, 9), (10, 14))),
        ([units(0, 1, 2, 90, end=99)], 4, ((0, 89), (90, 99))),
        ([units(0, 2, 4, end=5), units(0, 3, end=5)], 2, ((0, 5),)),
        ([units(0, 1, end=1)], 1, ((0, 1),)),
        ([units(0, end=9), []], 3, ()),
        ([], 3, ()),
    ],
)
def test_cuts(inputs, parts, ranges):
    assert split_ranges(inputs, parts) == ranges


def test_bounds_are_read_from_every_batch(tmp_path):
    path = tmp_path / "x.arrow"
    schema = pa.schema([("start", pa.int64()), ("end", pa.int64())])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for start in (0, 2):
            writer.write_batch(pa.record_batch([[start, start + 1]] * 2, schema=schema))
    assert unit_bounds(path) == [(0, 0), (1, 1), (2, 2), (3, 3)]
