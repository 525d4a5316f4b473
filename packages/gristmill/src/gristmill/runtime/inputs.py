"""The inputs of an algorithm: groups of ports that advance together, as BEAT synchronises them.

At every step the ports whose current data ends first move on; a port with coarser data keeps it
over several steps. `data_index`, `data_index_end` say which data units a port's data covers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gristmill.runtime.errors import AlgorithmError
from gristmill.runtime.files import Source


class Input:
    """One input port."""

    def __init__(self, name: str, data_format: str, source: Source) -> None:
        self.name = name
        self.data_format = data_format
        self.data: Any = None
        self.data_index = -1  #: first data unit of `data`
        self.data_index_end = -1  #: last data unit of `data`
        self.group: InputGroup
        self.nb_data_blocks_read = 0
        self.data_same_as_previous = True
        self._source = source

    def isDataUnitDone(self) -> bool:
        """Whether the current data gives way to other data at the next step."""
        return self.data_index_end >= 0 and self.data_index_end == self.group.last_data_index

    def hasMoreData(self) -> bool:
        """Whether there is data after the current one."""
        return self.nb_data_blocks_read < len(self._source)

    def hasDataChanged(self) -> bool:
        """Whether the last step brought this port other data."""
        return not self.data_same_as_previous

    def next(self) -> None:
        """Go to the next data; only where the platform does not drive the group."""
        if self.group.restricted_access:
            raise AlgorithmError(
                f"next() on {self.name!r}: the platform drives the group of channel "
                f"{self.group.channel!r}; only inputs of other groups may be advanced"
            )
        self._advance()
        self.group._measure()

    def _advance(self) -> None:
        if not self.hasMoreData():
            raise AlgorithmError(
                f"next() on {self.name!r} (channel {self.group.channel!r}): there is no more data"
            )
        row = self.nb_data_blocks_read
        self.data_index = int(self._source.starts[row])
        self.data_index_end = int(self._source.ends[row])
        self.data = self._source.value(row)
        self.data_same_as_previous = False
        self.nb_data_blocks_read += 1


class InputGroup:
    """Ports of one channel."""

    def __init__(self, channel: str, inputs: list[Input], restricted_access: bool) -> None:
        self.channel = channel
        self.restricted_access = restricted_access
        self.data_index = -1  #: lowest first data unit over the ports
        self.data_index_end = -1  #: highest last data unit over the ports
        self.first_data_index = -1  #: of the units all ports have in common now
        self.last_data_index = -1
        self._inputs = inputs
        for port in inputs:
            port.group = self

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, str):
            return next((port for port in self._inputs if port.name == key), None)
        return self._inputs[key] if -len(self) <= key < len(self) else None

    def __iter__(self) -> Iterator[Input]:
        return iter(self._inputs)

    def __len__(self) -> int:
        return len(self._inputs)

    def isDataUnitDone(self) -> bool:
        """Whether all ports get other data at the next step."""
        return all(port.isDataUnitDone() for port in self._inputs)

    def hasMoreData(self) -> bool:
        """Whether any port has data after its current one."""
        return any(port.hasMoreData() for port in self._inputs)

    def next(self) -> None:
        """Go one step on; only where the platform does not drive the group."""
        if self.restricted_access:
            raise AlgorithmError(
                f"next() on the group of channel {self.channel!r}: the platform drives it"
            )
        self._advance()

    def _advance(self) -> None:
        ends_first = min(port.data_index_end for port in self._inputs)
        moving = [port for port in self._inputs if port.data_index_end == ends_first]
        for port in self._inputs:
            if port in moving:
                port._advance()
            else:
                port.data_same_as_previous = True
        self._measure()

    def _measure(self) -> None:
        self.data_index = min(port.data_index for port in self._inputs)
        self.data_index_end = max(port.data_index_end for port in self._inputs)
        self.first_data_index = max(port.data_index for port in self._inputs)
        self.last_data_index = min(port.data_index_end for port in self._inputs)


class InputList:
    """All inputs of a block, by name, by position, or by group."""

    def __init__(self, groups: list[InputGroup]) -> None:
        self._groups = groups
        self.main_group = next((group for group in groups if group.restricted_access), None)

    def __getitem__(self, key: str | int | slice) -> Any:
        ports = [port for group in self._groups for port in group]
        if isinstance(key, str):
            return next((port for port in ports if port.name == key), None)
        if isinstance(key, slice):
            return ports[key]
        return ports[key] if -len(ports) <= key < len(ports) else None

    def __iter__(self) -> Iterator[Input]:
        return (port for group in self._groups for port in group)

    def __len__(self) -> int:
        return sum(map(len, self._groups))

    def nbGroups(self) -> int:
        """How many groups there are."""
        return len(self._groups)

    def groupOf(self, input_name: str) -> InputGroup | None:
        """Return the group of an input."""
        return next((group for group in self._groups if group[input_name] is not None), None)

    def group(self, name_or_index: str | int) -> InputGroup | None:
        """Return a group by its channel's name or its position."""
        if isinstance(name_or_index, str):
            return next((g for g in self._groups if g.channel == name_or_index), None)
        return self._groups[name_or_index]

    def hasMoreData(self) -> bool:
        """Whether any group has more data."""
        return any(group.hasMoreData() for group in self._groups)

    def isDataUnitDone(self) -> bool:
        """Whether all ports of the synchronised group get other data at the next step."""
        return self.main_group is not None and self.main_group.isDataUnitDone()

    def hasDataChanged(self) -> bool:
        """Whether the last step brought any port other data."""
        return any(port.hasDataChanged() for port in self)
