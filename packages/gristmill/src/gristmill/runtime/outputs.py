"""The outputs of an algorithm: where blocks write data, and analyzers results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from gristmill.runtime.errors import AlgorithmError
from gristmill.runtime.files import FileWriter
from gristmill.runtime.types import Record
from gristmill.runtime.values import check


class Sink(Protocol):
    """Takes the values of one output."""

    def write(self, value: Any, start: int, end: int, where: str) -> None:
        """Check and store a value."""


class Unconnected:
    """The sink of an output that nobody reads: values are checked and dropped."""

    def __init__(self, kind: Record | None) -> None:
        self._kind = kind

    def write(self, value: Any, start: int, end: int, where: str) -> None:
        """Check a value."""
        if self._kind is not None:
            check(value, self._kind, where)


class Output:
    """One output port. `current` gives the last data unit of the current step, if driven."""

    def __init__(
        self,
        name: str,
        data_format: str,
        sink: Sink,
        before: int,
        current: Callable[[], int] | None,
    ) -> None:
        self.name = name
        self.data_format = data_format
        self.last_written_data_index = before
        self.nb_data_blocks_written = 0
        self._sink = sink
        self._current = current

    def write(self, data: Any, end_data_index: int | None = None) -> None:
        """Write the next data; it covers the units after the last write, to `end_data_index`."""
        end = self._end(end_data_index)
        self._sink.write(data, self.last_written_data_index + 1, end, f"output {self.name!r}")
        self.last_written_data_index = end
        self.nb_data_blocks_written += 1

    def isDataMissing(self) -> bool:
        """Whether the current step's data units are not all written."""
        return self._current is not None and self._current() != self.last_written_data_index

    def isConnected(self) -> bool:
        """Whether a block reads this output."""
        return isinstance(self._sink, FileWriter)

    def _end(self, asked: int | None) -> int:
        current = None if self._current is None else self._current()
        after = self.last_written_data_index + 1
        end = asked if asked is not None else after if current is None else current
        if end < after:
            raise AlgorithmError(
                f"output {self.name!r}: data units up to {after - 1} are written already, "
                f"{int(end)} is not after them"
            )
        if current is not None and end > current:
            raise AlgorithmError(
                f"output {self.name!r}: end_data_index {int(end)} is past {current}, the last "
                "data unit read so far"
            )
        return int(end)


class OutputList:
    """The outputs of a block, by name or position."""

    def __init__(self, outputs: list[Output]) -> None:
        self._outputs = outputs

    def __getitem__(self, key: str | int) -> Output:
        if isinstance(key, int):
            return self._outputs[key]
        for output in self._outputs:
            if output.name == key:
                return output
        raise AlgorithmError(
            f"no output {key!r}; this algorithm has {', '.join(o.name for o in self._outputs)}"
        )

    def __iter__(self) -> Iterator[Output]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)


class Results:
    """The output of an analyzer: one object with all results."""

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self._declared = declared
        self.written: dict[str, Any] | None = None

    def write(self, data: Any, end_data_index: int | None = None) -> None:
        """Write the results; every declared one must be there, and no other."""
        from gristmill.runtime import results

        if self.written is not None:
            raise AlgorithmError("the results are written already; an analyzer writes them once")
        self.written = results.checked(data, self._declared)

    def isDataMissing(self) -> bool:
        """Whether the results are not written yet."""
        return self.written is None

    def isConnected(self) -> bool:
        """Whether the results go anywhere: always."""
        return True
