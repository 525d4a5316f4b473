"""Values written to a file are read back unchanged, whatever the format."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gristmill.runtime.errors import DataError, JobError
from gristmill.runtime.files import DataFile, FileWriter
from gristmill.runtime.types import BASE, resolve
from tests.runtime.jobs import read_file, write_file

REF = "user/any/1"
NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)


def declared(depth: int = 2) -> st.SearchStrategy[Any]:
    """A data format's JSON, nested up to `depth`."""
    base = st.sampled_from(sorted(BASE))
    if depth == 0:
        return base
    inner = declared(depth - 1)
    record = st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    array = st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=3), inner | record).map(
        lambda drawn: [*drawn[0], drawn[1]]
    )
    return base | record | array


def value_of(form: Any) -> st.SearchStrategy[Any]:
    """Values that fit a data format's JSON."""
    if isinstance(form, dict):
        return st.fixed_dictionaries({name: value_of(inner) for name, inner in form.items()})
    if isinstance(form, list):
        *shape, element = form
        sizes = st.tuples(*(st.just(n) if n else st.integers(0, 3) for n in shape))
        return sizes.flatmap(lambda size: array_of(size, element))
    if form == "string":
        return st.text(st.characters(codec="utf-8"), max_size=5)
    return arrays.from_dtype(np.dtype(form), allow_nan=False)


def array_of(shape: tuple[int, ...], element: Any) -> st.SearchStrategy[Any]:
    if isinstance(element, str) and element != "string":
        return arrays.arrays(element, shape, elements=value_of(element))
    count = int(np.prod(shape))

    def pack(items: list[Any]) -> Any:
        packed = np.empty(count, dtype=object)
        for place, item in enumerate(items):
            packed[place] = item
        return packed.reshape(shape)

    return st.lists(value_of(element), min_size=count, max_size=count).map(pack)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, np.ndarray):
        pairs = zip(left.ravel(), right.ravel(), strict=True)
        return left.shape == right.shape and all(same(a, b) for a, b in pairs)
    return bool(left == right) and type(left) is type(right)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_every_value_comes_back_as_it_was_written(data: st.DataObject) -> None:
    form = data.draw(st.dictionaries(NAMES, declared(), min_size=1, max_size=3))
    values = data.draw(st.lists(value_of(form), max_size=4))
    rows = [(i, i, value) for i, value in enumerate(values)]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("a", "b")]
        for path in paths:
            write_file(path, REF, rows, {REF: form})
        assert paths[0].read_bytes() == paths[1].read_bytes()
        found = read_file(paths[0], REF, {REF: form})
    assert [row[:2] for row in found] == [row[:2] for row in rows]
    assert all(same(row[2], value) for row, value in zip(found, values, strict=True))


def test_numbers_are_views_of_the_mapped_file(tmp_path: Path) -> None:
    formats = {REF: {"value": [0, 0, "float64"]}}
    write_file(tmp_path / "x", REF, [(0, 0, {"value": np.eye(3)})], formats)
    value = DataFile(tmp_path / "x", REF, resolve(REF, formats)).value(0).value
    assert not value.flags.owndata
    assert not value.flags.writeable


def test_many_rows_are_written_in_batches_that_depend_on_the_data_alone(tmp_path: Path) -> None:
    formats = {REF: {"value": [0, "float64"]}}
    rows = [(i, i, {"value": np.full(1000, i, dtype=float)}) for i in range(2000)]
    write_file(tmp_path / "x", REF, rows, formats)
    data = DataFile(tmp_path / "x", REF, resolve(REF, formats))
    assert data._file.num_record_batches > 1
    assert data.value(1999).value[7] == 1999
    assert data.value(3).value[7] == 3


@pytest.mark.parametrize(
    ("form", "value", "says"),
    [
        ("int32", np.int64(1), "int64 does not fit safely into int32"),
        ("int32", 2**31, "2147483648 is outside the range of int32"),
        ("uint8", -1, "-1 is outside the range of uint8"),
        ("int32", 1.5, "expected int32, got float64"),
        ("bool", 1, "expected bool, got int64"),
        ("float32", np.float64(1), "float64 does not fit safely into float32"),
        ("float64", "1", "expected float64, got str"),
        ("float64", None, "got nothing (None)"),
        ("string", 3, "expected string, got int"),
        ("string", "\ud800", "half a character"),
        ([0, "int32"], np.zeros(2), "float64 does not fit safely into int32"),
        ([0, "float64"], [[1.0]], "expected shape [any], got [1, 1]"),
        ([2, 3, "float64"], np.zeros((2, 4)), "expected shape [2, 3], got [2, 4]"),
        ([0, 0, "float64"], [[1.0], [1.0, 2.0]], "differ in length"),
        ([0, "float64"], object(), "expected an array of float64"),
        ([0, "string"], "abc", "expected an array, got str"),
        ({"x": "int8"}, {}, "the field 'x' is missing"),
        ({"x": "int8"}, {"x": 1, "y": 2}, "no field 'y'"),
        ([0, {"x": "int8"}], [{"x": 1}, {"x": "a"}], "[1].x: expected int8, got str"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_words(
    tmp_path: Path, form: Any, value: Any, says: str
) -> None:
    writer = FileWriter(tmp_path / "x", REF, resolve(REF, {REF: {"value": form}}))
    with pytest.raises(DataError) as error:
        writer.write({"value": value}, 0, 0, "output 'o'")
    assert says in str(error.value)
    assert "output 'o'" in str(error.value)
    writer.close()


@pytest.mark.parametrize(
    ("form", "value", "stored"),
    [
        ("float32", 0.5, np.float32(0.5)),
        ("float64", 3, np.float64(3)),
        ("int64", True, np.int64(1)),
        ("complex64", 1, np.complex64(1)),
        ([0, "uint8"], [1, 2], np.array([1, 2], dtype="uint8")),
        ([0, 0, "float64"], [], np.empty((0, 0))),
        ([0, "float64"], np.arange(6).reshape(2, 3).T[0].astype("float32"), np.array([0.0, 3.0])),
        ([0, "string"], np.array(["a", "b"]), np.array(["a", "b"], dtype=object)),
        ([0, 0, "int16"], np.asfortranarray(np.ones((2, 3), "int8")), np.ones((2, 3), "int16")),
        ([0, "float64"], np.arange(3, dtype=">f8"), np.arange(3.0)),
    ],
)
def test_what_fits_safely_is_cast(tmp_path: Path, form: Any, value: Any, stored: Any) -> None:
    formats = {REF: {"value": form}}
    write_file(tmp_path / "x", REF, [(0, 0, {"value": value})], formats)
    assert same(read_file(tmp_path / "x", REF, formats)[0][2]["value"], stored)


def test_a_format_takes_over_the_fields_it_extends_and_those_it_names() -> None:
    formats = {
        "u/base/1": {"#description": "…", "x": "int8"},
        "u/point/1": {"#extends": "u/base/1", "y": "int8"},
        "u/line/1": {"points": [0, "u/point/1"]},
    }
    kind = resolve("u/line/1", formats)
    assert str(kind).count("'x'") == 1
    assert str(kind).count("'y'") == 1


@pytest.mark.parametrize(
    ("formats", "says"),
    [
        ({"a": {"x": "a"}}, "in terms of itself"),
        ({"a": {"x": "b"}, "b": {"#extends": "a"}}, "in terms of itself"),
        ({"a": {"x": "u/none/1"}}, "no data format 'u/none/1'"),
        ({"a": {"#extends": "b", "x": "int8"}, "b": {"x": "int8"}}, "repeats the field 'x'"),
        ({"a": {"x": [-1, "int8"]}}, "array of shape [-1]"),
        ({"a": {"x": ["int8"]}}, "array of shape []"),
        ({"a": []}, "is not an object"),
    ],
)
def test_a_broken_format_is_named(formats: dict[str, Any], says: str) -> None:
    with pytest.raises(JobError) as error:
        resolve("a", formats)
    assert says in str(error.value)


def test_an_empty_file_and_an_empty_format(tmp_path: Path) -> None:
    for form, rows in (({"value": [0, "string"]}, []), ({}, [(0, 0, {})])):
        write_file(tmp_path / "x", REF, rows, {REF: form})
        assert read_file(tmp_path / "x", REF, {REF: form}) == rows


def test_a_file_whose_writer_allows_nulls_is_read(tmp_path: Path) -> None:
    array = pa.struct([("shape", pa.list_(pa.int64(), 1)), ("data", pa.list_(pa.float64()))])
    schema = pa.schema(
        [("start", pa.int64()), ("end", pa.int64()), ("value", pa.struct([("value", array)]))]
    )
    value = {"value": {"shape": [2], "data": [1.0, 2.0]}}
    with pa.OSFile(str(tmp_path / "x"), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch([[0], [0], [value]], schema=schema))
    found = read_file(tmp_path / "x", REF, {REF: {"value": [0, "float64"]}})
    assert same(found[0][2]["value"], np.array([1.0, 2.0]))


def test_a_file_of_another_format_or_a_broken_one_is_refused(tmp_path: Path) -> None:
    write_file(tmp_path / "x", REF, [], {REF: {"value": "int8"}})
    with pytest.raises(JobError, match="x holds struct<value: int8 not null>"):
        DataFile(tmp_path / "x", REF, resolve(REF, {REF: {"value": "int16"}}))
    (tmp_path / "x").write_bytes(b"ARROW1\0\0")
    with pytest.raises(JobError, match="cannot be read"):
        DataFile(tmp_path / "x", REF, resolve(REF, {REF: {"value": "int8"}}))
