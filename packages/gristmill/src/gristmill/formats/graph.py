"""The graph of a toolchain: its items, its connections, their order. For toolchains of right shape.

Linear in the size of the toolchain, and without recursion: 100,000 blocks in a row are ordered as
ten are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gristmill.formats.problems import BadDocument, Path, problem


@dataclass(frozen=True, slots=True)
class Item:
    """A dataset, block, analyzer or loop of a toolchain."""

    name: str
    kind: str  #: "dataset", "block", "analyzer" or "loop"
    channel: str  #: a dataset's own name, or the synchronised channel
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    path: Path


@dataclass(frozen=True, slots=True)
class Connection:
    """An output that feeds an input."""

    from_item: str
    from_port: str
    to_item: str
    to_port: str
    channel: str
    path: Path = field(default=(), compare=False)


def items(toolchain: Mapping[str, Any]) -> Iterator[Item]:
    """Yield datasets, blocks, loops and analyzers of a (well-formed) toolchain as written."""
    for index, entry in enumerate(toolchain["datasets"]):
        ports = tuple(entry["outputs"])
        yield Item(entry["name"], "dataset", entry["name"], (), ports, ("datasets", index))
    for section, kind in (("blocks", "block"), ("loops", "loop"), ("analyzers", "analyzer")):
        for index, entry in enumerate(toolchain.get(section, ())):
            yield Item(
                entry["name"],
                kind,
                entry["synchronized_channel"],
                _ports(entry, "inputs"),
                _ports(entry, "outputs"),
                (section, index),
            )


def _ports(entry: Mapping[str, Any], side: str) -> tuple[str, ...]:
    if side in entry:
        return tuple(entry[side])
    return (*entry.get(f"processor_{side}", ()), *entry.get(f"evaluator_{side}", ()))


def connections(toolchain: Mapping[str, Any]) -> Iterator[Connection]:
    """Yield the connections of a (well-formed) toolchain as written."""
    for index, entry in enumerate(toolchain["connections"]):
        from_item, from_port = entry["from"].split(".")
        to_item, to_port = entry["to"].split(".")
        path = ("connections", index)
        yield Connection(from_item, from_port, to_item, to_port, entry["channel"], path)


# ---- order ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cycle:
    """Items that feed each other in a ring."""

    names: list[str]  #: the first one again at the end
    path: Path  #: of the connection that closes the ring

    def __str__(self) -> str:
        names = self.names if len(self.names) <= 10 else [*self.names[:8], "…", *self.names[-2:]]
        return " → ".join(names)


def topological_order(toolchain: Mapping[str, Any]) -> list[str]:
    """Return the names of all items, each after those it reads from; ties as written.

    For a toolchain of the right shape; connections to unknown items are passed over. Raises
    BadDocument when there is a cycle.
    """
    followers, waiting_for = _graph(toolchain)
    ready = deque(name for name, count in waiting_for.items() if count == 0)
    order: list[str] = []
    while ready:
        name = ready.popleft()
        order.append(name)
        for follower, _ in followers[name]:
            waiting_for[follower] -= 1
            if waiting_for[follower] == 0:
                ready.append(follower)
    if len(order) < len(waiting_for):
        cycle = find_cycle(toolchain)
        assert cycle is not None
        raise BadDocument([problem(cycle.path, "cycle", f"The toolchain has a cycle: {cycle}")])
    return order


_Followers = dict[str, list[tuple[str, Path]]]


def _graph(toolchain: Mapping[str, Any]) -> tuple[_Followers, dict[str, int]]:
    """Return who reads from each item (and by which connection), and how many each waits for."""
    followers: _Followers = {item.name: [] for item in items(toolchain)}
    waiting_for = dict.fromkeys(followers, 0)
    for connection in connections(toolchain):
        if connection.from_item in followers and connection.to_item in followers:
            followers[connection.from_item].append((connection.to_item, connection.path))
            waiting_for[connection.to_item] += 1
    return followers, waiting_for


def find_cycle(toolchain: Mapping[str, Any]) -> Cycle | None:
    """Return one cycle of a (well-formed) toolchain, or None."""
    followers, _ = _graph(toolchain)
    done: set[str] = set()
    for root in followers:
        if root not in done:
            cycle = _cycle_from(root, followers, done)
            if cycle:
                return cycle
    return None


def _cycle_from(root: str, followers: _Followers, done: set[str]) -> Cycle | None:
    on_path: dict[str, None] = {root: None}
    stack = [(root, iter(followers[root]))]
    while stack:
        name, rest = stack[-1]
        following = next(rest, None)
        if following is None:
            stack.pop()
            del on_path[name]
            done.add(name)
        elif following[0] in on_path:
            ring = list(on_path)
            return Cycle([*ring[ring.index(following[0]) :], following[0]], following[1])
        elif following[0] not in done:
            on_path[following[0]] = None
            stack.append((following[0], iter(followers[following[0]])))
    return None


def predecessors(toolchain: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return, for each item, the names of those it reads from, each once, as connected."""
    result: dict[str, dict[str, None]] = {item.name: {} for item in items(toolchain)}
    for connection in connections(toolchain):
        result[connection.to_item][connection.from_item] = None
    return {name: list(before) for name, before in result.items()}
