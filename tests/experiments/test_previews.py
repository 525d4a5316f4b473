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
