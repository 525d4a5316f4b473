"""Values to Arrow arrays and back: the one place that knows how a type lies in a file.

An array of n dimensions is `{shape: fixed_size_list<int64>[n], data: list<T>}` in row-major order,
a complex number `{re, im}`. Nothing is nullable, so equal values give equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.runtime.types import Array, Record, Scalar, Type
from gristmill.runtime.values import Data

FORMAT_KEY = b"gristmill.format"
_ARROW = {"float32": pa.float32(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.utf8()}

Reader = Callable[[int], Any]  #: row of a batch -> value


def arrow_type(kind: Type) -> Any:
    """Return the Arrow type of `kind`."""
    match kind:
        case Scalar() if kind.is_complex:
            part = pa.float32() if kind.name == "complex64" else pa.float64()
            return pa.struct([_field("re", part), _field("im", part)])
        case Scalar():
            return _ARROW.get(kind.name) or getattr(pa, kind.name)()
        case Record():
            return pa.struct([_field(name, arrow_type(inner)) for name, inner in kind.fields])
        case Array():
            shape = pa.list_(_field("item", pa.int64()), len(kind.shape))
            data = pa.list_(_field("item", arrow_type(kind.element)))
            return pa.struct([_field("shape", shape), _field("data", data)])


def _field(name: str, kind: Any) -> Any:
    return pa.field(name, kind, nullable=False)


def schema(reference: str, kind: Record) -> Any:
    """Return the schema of a data file: data-unit columns, the value, and the format's name."""
    columns = [
        _field("start", pa.int64()),
        _field("end", pa.int64()),
        _field("value", arrow_type(kind)),
    ]
    return pa.schema(columns, metadata={FORMAT_KEY: reference.encode()})


def alike(found: Any, expected: Any) -> bool:
    """Whether two Arrow types are the same but for what may be null: other writers may say so."""
    if found.id != expected.id or found.num_fields != expected.num_fields:
        return False
    if not found.num_fields:
        return bool(found == expected)
    if pa.types.is_fixed_size_list(found) and found.list_size != expected.list_size:
        return False
    pairs = [(found.field(i), expected.field(i)) for i in range(found.num_fields)]
    named = not pa.types.is_struct(found) or all(a.name == b.name for a, b in pairs)
    return named and all(alike(a.type, b.type) for a, b in pairs)


# ---- writing ------------------------------------------------------------------------------


def build(values: Sequence[Any], kind: Type) -> Any:
    """Return the Arrow array of checked values (see `values.check`)."""
    match kind:
        case Scalar(name="string"):
            return pa.array(values, type=pa.utf8())
        case Scalar():
            return _flat(np.array(values, dtype=kind.name), kind)
        case Record():
            return _struct(
                kind,
                [build([v[name] for v in values], inner) for name, inner in kind.fields],
                values,
            )
        case Array():
            return _arrays(values, kind)


def _struct(kind: Type, children: list[Any], values: Sequence[Any]) -> Any:
    fields = list(arrow_type(kind))
    if not fields:
        return pa.array([{}] * len(values), type=pa.struct([]))
    return pa.StructArray.from_arrays(children, fields=fields)


def _flat(numbers: np.ndarray[Any, Any], kind: Scalar) -> Any:
    if not kind.is_complex:
        return pa.array(numbers, type=arrow_type(kind))
    parts = [
        pa.array(np.ascontiguousarray(numbers.real)),
        pa.array(np.ascontiguousarray(numbers.imag)),
    ]
    return pa.StructArray.from_arrays(parts, fields=list(arrow_type(kind)))


def _arrays(values: Sequence[Any], kind: Array) -> Any:
    whole = arrow_type(kind)
    sizes = np.array([v.size for v in values], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    items = _items(values, kind.element)
    data = pa.ListArray.from_arrays(pa.array(offsets), items, type=whole.field("data").type)
    shapes = np.array([v.shape for v in values], dtype=np.int64).ravel()
    shape = pa.FixedSizeListArray.from_arrays(pa.array(shapes), type=whole.field("shape").type)
    return pa.StructArray.from_arrays([shape, data], fields=list(whole))


def _items(values: Sequence[Any], element: Type) -> Any:
    if isinstance(element, Scalar) and element.name != "string":
        parts = [v.ravel() for v in values]
        joined = np.concatenate(parts) if parts else np.empty(0, dtype=element.name)
        return _flat(joined, element)
    return build([item for v in values for item in v.ravel()], element)


# ---- reading ------------------------------------------------------------------------------


def reader(column: Any, kind: Type) -> Reader:
    """Return a function from row to value; numbers are views of the mapped file."""
    match kind:
        case Scalar(name="string"):
            return lambda row: column[row].as_py()
        case Scalar():
            numbers = _numbers(column, kind)
            return lambda row: numbers[row]
        case Record():
            return _record_reader(column, kind)
        case Array():
            return _array_reader(column, kind)


def _record_reader(column: Any, kind: Record) -> Reader:
    inner = [
        (name, reader(column.field(place), child))
        for place, (name, child) in enumerate(kind.fields)
    ]
    return lambda row: Data({name: read(row) for name, read in inner})


def _array_reader(column: Any, kind: Array) -> Reader:
    dimensions = len(kind.shape)
    lists = column.field(1)
    shapes = column.field(0).flatten().to_numpy().reshape(-1, dimensions)
    offsets = lists.offsets.to_numpy()
    take = _slices(lists.values, kind.element)
    return lambda row: take(offsets[row], offsets[row + 1]).reshape(tuple(shapes[row]))


def _slices(items: Any, element: Type) -> Callable[[int, int], np.ndarray[Any, Any]]:
    if isinstance(element, Scalar) and element.name != "string":
        if element.name != "bool":
            numbers = _numbers(items, element)
            return lambda first, end: numbers[first:end]
        return lambda first, end: items[first:end].to_numpy(zero_copy_only=False)
    read = reader(items, element)

    def objects(first: int, end: int) -> np.ndarray[Any, Any]:
        found = np.empty(end - first, dtype=object)
        for place in range(first, end):
            found[place - first] = read(place)
        return found

    return objects


def _numbers(column: Any, kind: Scalar) -> np.ndarray[Any, Any]:
    if kind.name == "bool":
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if not kind.is_complex:
        return np.asarray(column.to_numpy())
    numbers = np.empty(len(column), dtype=kind.name)
    numbers.real = column.field(0).to_numpy()
    numbers.imag = column.field(1).to_numpy()
    return numbers
