"""A look into an output: some data units of Arrow files as JSON, never much of it.

The files were written beside user code and may hold anything: what is read is validated first,
since Arrow takes offsets on trust otherwise; types that our data files never have are refused, and
what is shown is counted: lists of nothing, within lists, take no room in a file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

MOST_ITEMS = 100  #: data units of one preview
MOST_NUMBERS = 400  #: elements shown of one array
MOST_CHARACTERS = 1000  #: shown of one text
MOST_VALUES = 200_000  #: shown in one preview; lists are cut short beyond
DEEPEST = 100  #: types within types; a data format has at most 40 levels, an array counts twice


@dataclass(frozen=True, slots=True)
class Item:
    """One data unit."""

    start: int
    end: int
    value: Any


class Unreadable(Exception):
    """The file is not what outputs are."""


def read(files: Sequence[tuple[Path, int]], offset: int, limit: int) -> list[Item]:
    """Return data units from the `offset`th on; each file comes with its number of units.

    Raises Unreadable.
    """
    try:
        return _read(files, offset, limit, Budget())
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        raise Unreadable(str(error)) from None


class Budget:
    """How many values a preview may still show."""

    def __init__(self, values: int = MOST_VALUES) -> None:
        self._left = values

    def take(self, wanted: int) -> int:
        """Return how many of the values wanted may be shown."""
        given = min(wanted, self._left)
        self._left -= given
        return given


def _check_schema(schema: Any) -> None:
    """Raise Unreadable unless all types are those of data files."""
    if not all(schema.field(name).type == pa.int64() for name in ("start", "end")):
        raise Unreadable("`start` and `end` are not whole numbers")
    _check_type(schema.field("value").type, 0)


def _check_type(kind: Any, depth: int) -> None:
    if depth > DEEPEST:
        raise Unreadable(f"its types are nested deeper than {DEEPEST} levels")
    if pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            _check_type(kind.field(i).type, depth + 1)
    elif pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        _check_type(kind.value_type, depth + 1)
    elif not any(test(kind) for test in _PLAIN):
        raise Unreadable(f"no data format has the type {str(kind)[:100]}")


_PLAIN = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string)


def _read(files: Sequence[tuple[Path, int]], offset: int, limit: int, budget: Budget) -> list[Item]:
    found: list[Item] = []
    for path, rows in files:
        if offset >= rows:
            offset -= rows
            continue
        found += _read_file(path, offset, limit - len(found), budget)
        offset = 0
        if len(found) == limit:
            break
    return found


def _read_file(path: Path, offset: int, limit: int, budget: Budget) -> list[Item]:
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        _check_schema(reader.schema)
        found: list[Item] = []
        for index in range(reader.num_record_batches):
            batch = reader.get_batch(index)
            if offset < batch.num_rows:
                found += _items(batch.slice(offset, limit - len(found)), budget)
                if len(found) == limit:
                    break
            offset = max(0, offset - batch.num_rows)
        return found


def _items(batch: Any, budget: Budget) -> list[Item]:
    batch.validate(full=True)
    values = batch.column("value")
    return [
        Item(
            batch.column("start")[i].as_py(),
            batch.column("end")[i].as_py(),
            shown(values[i], values.type, budget),
        )
        for i in range(batch.num_rows)
    ]


def shown(scalar: Any, kind: Any, budget: Budget) -> Any:
    """Return an Arrow value as JSON: long arrays and texts cut, no number that JSON has not.

    An array is `{"shape": [...], "data": [first elements, row-major]}`; a complex number
    `{"re": …, "im": …}`.
    """
    if not scalar.is_valid:
        return None
    if pa.types.is_struct(kind):
        return {
            kind.field(i).name: shown(scalar[i], kind.field(i).type, budget)
            for i in range(budget.take(kind.num_fields))
        }
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        elements = scalar.values[: budget.take(min(len(scalar.values), MOST_NUMBERS))]
        return [shown(element, elements.type, budget) for element in elements]
    value = scalar.as_py()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        return value[:MOST_CHARACTERS] + "…"
    return value
