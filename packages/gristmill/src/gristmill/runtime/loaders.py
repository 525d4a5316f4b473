"""Data loaders: free access to the data of a channel, by position in its finest data units."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gristmill.runtime.files import Source

Item = tuple[Any, Any, Any]  #: ({input: data}, first data unit, last data unit)


class DataView:
    """Some consecutive data units of a channel."""

    def __init__(self, sources: dict[str, Source], starts: Any, ends: Any) -> None:
        self._sources = sources
        self._starts, self._ends = starts, ends
        self.data_index_start = int(starts[0]) if len(starts) else -1
        self.data_index_end = int(ends[-1]) if len(ends) else -1

    def count(self, input_name: str | None = None) -> int:
        """How many steps there are, or how many different data of one input."""
        if input_name is None:
            return len(self._starts)
        source = self._sources.get(input_name)
        if source is None or not len(self._starts):
            return 0
        inside = (source.ends >= self._starts[0]) & (source.starts <= self._ends[-1])
        return int(inside.sum())

    def __len__(self) -> int:
        return self.count()

    def __getitem__(self, index: int) -> Item:
        if not 0 <= index < len(self._starts):
            return (None, None, None)
        start, end = int(self._starts[index]), int(self._ends[index])
        return ({name: _at(source, start) for name, source in self._sources.items()}, start, end)

    def __iter__(self) -> Iterator[Item]:
        return (self[index] for index in range(len(self._starts)))


class DataLoader(DataView):
    """All data units of a channel."""

    def __init__(self, channel: str, sources: dict[str, Source]) -> None:
        self.channel = channel
        super().__init__(sources, *_common_units(list(sources.values())))

    def input_names(self) -> list[str]:
        """Return the names of the channel's inputs."""
        return list(self._sources)

    def view(self, input_name: str, index: int) -> DataView | None:
        """Return the data units that the `index`-th data of an input covers."""
        source = self._sources.get(input_name)
        if source is None or not 0 <= index < len(source):
            return None
        inside = (self._starts >= source.starts[index]) & (self._ends <= source.ends[index])
        return DataView(self._sources, self._starts[inside], self._ends[inside])


class DataLoaderList:
    """The data loaders of a block, one for each channel."""

    def __init__(self, loaders: list[DataLoader], main: DataLoader | None) -> None:
        self._loaders = loaders
        self.main_loader = main

    def __getitem__(self, name_or_index: str | int) -> DataLoader | None:
        if isinstance(name_or_index, str):
            by_channel = (x for x in self._loaders if x.channel == name_or_index)
            return next(by_channel, None) or self.loaderOf(name_or_index)
        return self._loaders[name_or_index]

    def __iter__(self) -> Iterator[DataLoader]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)

    def loaderOf(self, input_name: str) -> DataLoader | None:
        """Return the loader of an input's channel."""
        return next((x for x in self._loaders if input_name in x.input_names()), None)

    def secondaries(self) -> DataLoaderList:
        """Return the loaders of all channels but the synchronised one."""
        return DataLoaderList([x for x in self._loaders if x is not self.main_loader], None)


def _common_units(sources: list[Source]) -> tuple[Any, Any]:
    """Cut the channel wherever any input starts other data: first and last units of each piece."""
    none = np.empty(0, dtype=np.int64)
    if not sources or any(len(source) == 0 for source in sources):
        return none, none
    first = max(int(source.starts[0]) for source in sources)
    last = min(int(source.ends[-1]) for source in sources)
    cuts = np.unique(np.concatenate([source.starts for source in sources]))
    starts = np.unique(np.append(cuts[(cuts >= first) & (cuts <= last)], first))
    return starts, np.append(starts[1:] - 1, last)


def _at(source: Source, unit: int) -> Any:
    return source.value(int(np.searchsorted(source.starts, unit, side="right")) - 1)
