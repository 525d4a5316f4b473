"""Previews of outputs: bounded, and safe whatever is in the file."""

import json
import random

import pyarrow as pa
import pytest

from backend.app.cache.splitter import unit_bounds
from backend.app.experiments import previews
from backend.app.experiments.previews import Item, Unreadable

ARRAY = pa.struct([("shape", pa.list_(pa.int64(), 2)), ("data", pa.list_(pa.float64()))])
VALUE = pa.struct(
    [
        ("image", ARRAY),
        ("name", pa.string()),
        ("z", pa.struct([("re", pa.float32()), ("im", pa.float32())])),
    ]
)
SCHEMA = pa.schema([("start", pa.int64()), ("end", pa.int64()), ("value", VALUE)])


def value(number, elements=4):
    return {
        "image": {"shape": [2, elements // 2], "data": [float(number)] * elements},
        "name": "x" * 5000 if number == 3 else f"n{number}",
        "z": {"re": float("nan"), "im": float("inf")},
    }


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "x.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        for first in range(0, 10, 4):
            units = list(range(first, min(first + 4, 10)))
            values = [value(unit, 2000 if unit == 5 else 4) for unit in units]
            batch = pa.record_batch([units, units, pa.array(values, VALUE)], schema=SCHEMA)
            writer.write_batch(batch)
    return path


def test_units_are_found_across_batches_and_files(file):
    files = [(file, 10), (file, 10)]
    found = previews.read(files, 8, 5)
    assert [(item.start, item.value["name"]) for item in found] == [
        (8, "n8"),
        (9, "n9"),
        (0, "n0"),
        (1, "n1"),
        (2, "n2"),
    ]
    assert previews.read(files, 20, 5) == []
    assert len(previews.read(files, 0, 100)) == 20


def test_values_are_json_and_short(file):
    found = previews.read([(file, 10)], 3, 3)
    assert found[1] == Item(
        4,
        4,
        {
            "image": {"shape": [2, 2], "data": [4.0] * 4},
            "name": "n4",
            "z": {"re": "nan", "im": "inf"},
        },
    )
    assert len(found[0].value["name"]) == previews.MOST_CHARACTERS + 1
    assert len(found[2].value["image"]["data"]) == previews.MOST_NUMBERS
    json.dumps([item.value for item in found], allow_nan=False)


def test_what_is_no_data_file_is_told(tmp_path):
    path = tmp_path / "x.arrow"
    for content in (b"", b"no arrow", b"ARROW1\0\0" + b"\xff" * 200 + b"ARROW1"):
        path.write_bytes(content)
        with pytest.raises(Unreadable):
            previews.read([(path, 10)], 0, 5)


def test_broken_files_never_break_the_reader(file):
    """Flip bytes all over: an answer or Unreadable, and no crash of the process."""
    whole = bytearray(file.read_bytes())
    chance = random.Random(1)
    for _ in range(300):
        broken = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        file.write_bytes(broken)
        try:
            previews.read([(file, 10)], 0, 10)
            unit_bounds(file)
        except (Unreadable, pa.ArrowException, KeyError, OSError):
            continue


def written(path, values, names=("start", "end", "value"), start=None):
    numbers = pa.array(range(len(values)), pa.int64())
    columns = [numbers if start is None else start, numbers, values]
    batch = pa.record_batch(columns, names=list(names))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return [(path, len(values))]


def nested(kind, levels, wrap):
    for _ in range(levels):
        kind = wrap(kind)
    return kind


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.binary(), b"\xff"),
        (pa.timestamp("s"), 2**62),
        (pa.date32(), 2**31 - 1),
        (pa.duration("s"), 2**62),
        (pa.decimal128(38, 0), 1),
        (pa.map_(pa.string(), pa.int32()), [("a", 1)]),
        (pa.null(), None),
        (nested(pa.null(), 3, lambda kind: pa.list_(kind, 2)), None),
    ],
)
def test_types_that_no_data_format_has_are_refused(tmp_path, kind, value):
    plain = isinstance(value, int) and not pa.types.is_decimal(kind)
    raw = pa.int32() if kind == pa.date32() else pa.int64()
    values = pa.array([value], raw).cast(kind) if plain else pa.array([value], kind)
    with pytest.raises(Unreadable, match="no data format has the type"):
        previews.read(written(tmp_path / "x", values), 0, 1)


def test_types_without_end_and_columns_of_another_kind_are_refused(tmp_path):
    kind = nested(pa.int8(), 300, lambda kind: pa.struct([("x", kind)]))
    with pytest.raises(Unreadable, match="nested deeper"):
        previews._check_type(kind, 0)
    bad = pa.array([b"\xff"])
    with pytest.raises(Unreadable, match="not whole numbers"):
        previews.read(written(tmp_path / "x", pa.array([1]), start=bad), 0, 1)
    with pytest.raises(Unreadable):
        previews.read(written(tmp_path / "y", pa.array([1]), names=("start", "end", "z")), 0, 1)


def test_lists_of_nothing_within_lists_are_cut_short(tmp_path):
    values = pa.StructArray.from_buffers(pa.struct([]), 100**3, [None])
    for _ in range(3):
        values = pa.FixedSizeListArray.from_arrays(values, 100)
    [item] = previews.read(written(tmp_path / "x", values), 0, 1)
    assert 1000 < len(json.dumps(item.value)) < 10 * previews.MOST_VALUES
