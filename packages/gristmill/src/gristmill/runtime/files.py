"""Data files: mapped when read, written batch by batch. One file is one output or part of one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.runtime import columns, values
from gristmill.runtime.errors import DataError, JobError
from gristmill.runtime.types import Record

BATCH_BYTES = 4 * 2**20  #: a batch is written once it holds this much
BATCH_ROWS = 65_536
LIST_LIMIT = 2**31 - 1  #: elements in the arrays of one batch, by Arrow's 32-bit offsets


class DataFile:
    """A data file, mapped; its values are decoded one by one."""

    def __init__(self, path: Path, reference: str, kind: Record) -> None:
        self.path = path
        self._kind = kind
        self._readers: dict[int, columns.Reader] = {}
        self.bytes_read = 0
        try:
            self._file = pa.ipc.open_file(pa.memory_map(str(path)))
            self._check(columns.schema(reference, kind))
            self.starts, self.ends = self._units()
        except (OSError, pa.ArrowInvalid) as error:
            raise JobError(f"input file {path.name} cannot be read: {error}") from error

    def _check(self, expected: Any) -> None:
        found = self._file.schema
        if found.names != expected.names or not all(
            map(columns.alike, found.types, expected.types)
        ):
            held = found.field("value").type if "value" in found.names else found.names
            raise JobError(
                f"input file {self.path.name} holds {held}, not {expected.field('value').type}"
            )

    def _units(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        batches = [self._file.get_batch(i) for i in range(self._file.num_record_batches)]
        self._first_rows = np.cumsum([0, *(len(b) for b in batches)])
        none = np.empty(0, dtype=np.int64)
        return (
            np.concatenate([none, *(b.column(0).to_numpy() for b in batches)]),
            np.concatenate([none, *(b.column(1).to_numpy() for b in batches)]),
        )

    def value(self, row: int) -> Any:
        """Return the value in a row of the file."""
        number = int(np.searchsorted(self._first_rows, row, side="right")) - 1
        if number not in self._readers:
            batch = self._file.get_batch(number)
            self.bytes_read += batch.nbytes
            self._readers[number] = columns.reader(batch.column(2), self._kind)
        return self._readers[number](row - int(self._first_rows[number]))


class Source:
    """The rows of one input: its files, in order, cut to a range of data units."""

    def __init__(
        self, files: Sequence[DataFile], within: tuple[int, int] | None, name: str
    ) -> None:
        none = np.empty(0, dtype=np.int64)
        starts = np.concatenate([none, *(f.starts for f in files)])
        ends = np.concatenate([none, *(f.ends for f in files)])
        owner = np.repeat(np.arange(len(files)), [len(f.starts) for f in files])
        rows = np.concatenate([none, *(np.arange(len(f.starts)) for f in files)])
        _check_units(starts, ends, name)
        keep = _inside(starts, ends, within, name)
        self._files = files
        self._owner, self._rows = owner[keep], rows[keep]
        self.starts, self.ends = starts[keep], ends[keep]

    def __len__(self) -> int:
        return len(self.starts)

    def value(self, row: int) -> Any:
        """Return the value in a row."""
        return self._files[self._owner[row]].value(int(self._rows[row]))

    @property
    def bytes_read(self) -> int:
        """How much of the files was looked at, in bytes."""
        return sum(f.bytes_read for f in self._files)


def _check_units(starts: np.ndarray[Any, Any], ends: np.ndarray[Any, Any], name: str) -> None:
    if np.any(ends < starts) or np.any(starts[1:] != ends[:-1] + 1):
        raise JobError(f"the data units of input {name!r} overlap or have gaps")


def _inside(
    starts: np.ndarray[Any, Any],
    ends: np.ndarray[Any, Any],
    within: tuple[int, int] | None,
    name: str,
) -> np.ndarray[Any, Any]:
    if within is None:
        return np.ones(len(starts), dtype=bool)
    first, last = within
    keep = (starts >= first) & (ends <= last)
    touched = (ends >= first) & (starts <= last)
    if np.any(keep != touched):
        raise JobError(f"the range {first}–{last} cuts through a data unit of input {name!r}")
    return keep


class FileWriter:
    """Writes one data file; the same values give the same bytes."""

    def __init__(self, path: Path, reference: str, kind: Record) -> None:
        self.path, self.rows, self.bytes_written = path, 0, 0
        self._kind = kind
        self._schema = columns.schema(reference, kind)
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, self._schema)
        self._pending: list[tuple[int, int, Any]] = []
        self._pending_bytes = 0

    def write(self, value: Any, start: int, end: int, where: str) -> None:
        """Check a value against the format and add it as the row `start`–`end`."""
        checked = values.check(value, self._kind, where)
        size = _size(checked)
        if size > LIST_LIMIT:
            raise DataError(f"{where}: one value is larger than 2 GiB; write it in parts")
        if self._pending and self._pending_bytes + size > LIST_LIMIT:
            self._flush()
        self._pending.append((start, end, checked))
        self._pending_bytes += size
        self.rows += 1
        if self._pending_bytes >= BATCH_BYTES or len(self._pending) >= BATCH_ROWS:
            self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        starts, ends, given = zip(*self._pending, strict=True)
        arrays = [
            pa.array(np.array(starts, dtype=np.int64)),
            pa.array(np.array(ends, dtype=np.int64)),
            columns.build(given, self._kind),
        ]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        self._pending.clear()
        self._pending_bytes = 0

    def close(self) -> None:
        """Write what is left, and the footer."""
        self._flush()
        self._writer.close()
        self.bytes_written = self._sink.tell()
        self._sink.close()


def _size(value: Any) -> int:
    """About how many bytes a checked value takes."""
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    if isinstance(value, np.ndarray) and value.dtype == object:
        return 8 * value.size + sum(map(_size, value.ravel()))
    if isinstance(value, str):
        return len(value.encode())
    return int(value.nbytes)
