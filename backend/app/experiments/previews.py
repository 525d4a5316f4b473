"""A look into an output: some data units of Arrow files as JSON, never much of it.

The files were written beside user code and may hold anything: what is read is validated first,
since Arrow takes offsets on trust otherwise.
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
        return _read(files, offset, limit)
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        raise Unreadable(str(error)) from None


def _read(files: Sequence[tuple[Path, int]], offset: int, limit: int) -> list[Item]:
    found: list[Item] = []
    for path, rows in files:
        if offset >= rows:
            offset -= rows
            continue
        found += _read_file(path, offset, limit - len(found))
        offset = 0
        if len(found) == limit:
            break
    return found


def _read_file(path: Path, offset: int, limit: int) -> list[Item]:
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        found: list[Item] = []
        for index in range(reader.num_record_batches):
            batch = reader.get_batch(index)
            if offset < batch.num_rows:
                found += _items(batch.slice(offset, limit - len(found)))
                if len(found) == limit:
                    break
            offset = max(0, offset - batch.num_rows)
        return found


def _items(batch: Any) -> list[Item]:
    batch.validate(full=True)
    values = batch.column("value")
    return [
        Item(
            batch.column("start")[i].as_py(),
            batch.column("end")[i].as_py(),
            shown(values[i], values.type),
        )
        for i in range(batch.num_rows)
    ]


def shown(scalar: Any, kind: Any) -> Any:
    """Return an Arrow value as JSON: long arrays and texts cut, no number that JSON has not.

    An array is `{"shape": [...], "data": [first elements, row-major]}`; a complex number
    `{"re": …, "im": …}`.
    """
    if not scalar.is_valid:
        return None
    if pa.types.is_struct(kind):
        return {
            kind.field(i).name: shown(scalar[kind.field(i).name], kind.field(i).type)
            for i in range(kind.num_fields)
        }
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        elements = scalar.values[:MOST_NUMBERS]
        return [shown(element, elements.type) for element in elements]
    value = scalar.as_py()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        return value[:MOST_CHARACTERS] + "…"
    return value
