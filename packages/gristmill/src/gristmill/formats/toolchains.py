"""Toolchains: a graph of datasets, blocks and analyzers (and, in schema 2, loops).

Everything here is linear in the size of the toolchain and recurses nowhere: one of 100,000 blocks
is checked as one of ten. BEAT's own software never ends on a cycle; here it is told with its path.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gristmill.formats import names
from gristmill.formats.documents import check_document
from gristmill.formats.problems import BadDocument, Path, Problem, listed, problem, told
from gristmill.formats.shapes import (
    DESCRIPTION,
    Integer,
    Items,
    Matching,
    Name,
    OneOf,
    Record,
    Shape,
    Table,
    wrong_type,
)

_PORTS = Items(Name(), least=1, most=1000, unique=True)
_CHANNEL = Name(names.LABEL)
_DATASET = Record(
    {
        "name": Name(names.LABEL),
        "outputs": Items(Name(names.LABEL), least=1, most=1000, unique=True),
    },
    what="a dataset",
)
_BLOCK = Record(
    {"name": Name(), "synchronized_channel": _CHANNEL, "inputs": _PORTS, "outputs": _PORTS},
    what="a block",
)
_ANALYZER = Record(
    {"name": Name(), "synchronized_channel": _CHANNEL, "inputs": _PORTS}, what="an analyzer"
)
_LOOP = Record(
    {
        "name": Name(),
        "synchronized_channel": _CHANNEL,
        "processor_inputs": _PORTS,
        "processor_outputs": _PORTS,
        "evaluator_inputs": _PORTS,
        "evaluator_outputs": _PORTS,
    },
    what="a loop",
)


def _is_endpoint(text: str) -> bool:
    parts = text.split(".")
    return len(parts) == 2 and all(names.LABEL.fits(part) for part in parts)


def _is_connection(text: str) -> bool:
    ends = text.split("/")
    return len(ends) == 2 and all(_is_endpoint(end) for end in ends)


_ENDPOINT = Matching(_is_endpoint, "of the form block.port")
_CONNECTION = Record({"from": _ENDPOINT, "to": _ENDPOINT, "channel": _CHANNEL}, what="a connection")
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
_POINT: dict[str, Shape] = {"col": Integer(), "row": Integer()}
_REPRESENTATION = Record(
    {
        "connections": Table(
            Items(Record(_POINT, what="a way-point")),
            Matching(_is_connection, "of the form block.port/block.port"),
        ),
        "blocks": Table(
            Record({**_POINT, "width": Integer(), "height": Integer()}, what="a place"), names.LABEL
        ),
        "channel_colors": Table(
            Matching(lambda text: bool(_COLOUR.fullmatch(text)), "a colour such as #5555ff"),
            names.LABEL,
        ),
    },
    what="a representation",
)

_SECTIONS: dict[str, Shape] = {
    "datasets": Items(_DATASET, least=1),
    "blocks": Items(_BLOCK),
    "analyzers": Items(_ANALYZER),
    "connections": Items(_CONNECTION),
    "representation": _REPRESENTATION,
}
_TOOLCHAIN = Record(
    _SECTIONS,
    {
        "description": DESCRIPTION,
        "schema_version": OneOf((1, 2)),
        "loops": Items(_LOOP),  # the real schema 1 knows them as well
    },
    what="a toolchain",
)


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


def check_toolchain(toolchain: Any) -> list[Problem]:
    """Return what is wrong with a toolchain."""
    wrong = check_document(toolchain) or told(_shape(toolchain))
    return wrong or told(_meaning(toolchain))


def _shape(toolchain: Any) -> Iterator[Problem]:
    if not isinstance(toolchain, dict):
        yield wrong_type(toolchain, (), "a toolchain")
        return
    yield from _TOOLCHAIN.check(toolchain, ())
    if (
        not toolchain.get("blocks")
        and not toolchain.get("analyzers")
        and not toolchain.get("loops")
    ):
        message = "A toolchain needs at least one block or analyzer"
        yield problem(("blocks",), "length", message, expected="at least one block or analyzer")


def _meaning(toolchain: Mapping[str, Any]) -> Iterator[Problem]:
    by_name: dict[str, Item] = {}
    for item in items(toolchain):
        yield from _item_problems(item, by_name)
        by_name.setdefault(item.name, item)
    channels = {item.name for item in by_name.values() if item.kind == "dataset"}
    for item in by_name.values():
        if item.channel not in channels:
            expected = "one of the datasets: " + listed(sorted(channels))
            message = f"There is no dataset {listed([item.channel])} to be synchronised with"
            path = (*item.path, "synchronized_channel")
            yield problem(path, "channel", message, expected=expected, found=item.channel)
    yield from _connection_problems(toolchain, by_name)
    yield from _representation_problems(toolchain, by_name)
    cycle = find_cycle(toolchain)
    if cycle:
        text = " → ".join(listed([name]).strip('"') for name in _ends(cycle.names))
        message = f"The toolchain has a cycle: {text}"
        yield problem(cycle.path, "cycle", message, expected="no cycle")


def _ends(names_: list[str], most: int = 10) -> list[str]:
    return names_ if len(names_) <= most else [*names_[: most - 2], "…", *names_[-2:]]


def _item_problems(item: Item, by_name: Mapping[str, Item]) -> Iterator[Problem]:
    if item.name in by_name:
        other = by_name[item.name]
        message = f"The name {listed([item.name])} is already that of a {other.kind}"
        yield problem((*item.path, "name"), "duplicate", message, found=item.name)
    for ports in (item.inputs, item.outputs):
        for name in (
            {name for name in ports if ports.count(name) > 1} if item.kind == "loop" else ()
        ):
            message = f"The loop has the port {listed([name])} twice"
            yield problem(item.path, "duplicate", message, found=name)


def _connection_problems(
    toolchain: Mapping[str, Any], by_name: Mapping[str, Item]
) -> Iterator[Problem]:
    fed: dict[tuple[str, str], Connection] = {}
    inputs = {item.name: set(item.inputs) for item in by_name.values()}
    outputs = {item.name: set(item.outputs) for item in by_name.values()}
    for connection in connections(toolchain):
        wrong = [
            *_from_problems(connection, by_name, outputs),
            *_to_problems(connection, by_name, inputs),
        ]
        yield from wrong
        if not wrong:
            yield from _channel_problems(connection, by_name)
        end = (connection.to_item, connection.to_port)
        if end in fed:
            message = f"The input {'.'.join(end)} is fed by two connections"
            path = (*connection.path, "to")
            yield problem(path, "connected_twice", message, found=".".join(end))
        fed[end] = connection
    for item in by_name.values():
        yield from _unconnected(item, fed)


def _channel_problems(connection: Connection, by_name: Mapping[str, Item]) -> Iterator[Problem]:
    """What an item gives is on its channel; only a loop may take it for another dataset's."""
    producer, consumer = by_name[connection.from_item], by_name[connection.to_item]
    other = by_name.get(connection.channel)
    if connection.channel == producer.channel:
        return
    if consumer.kind == "loop" and other is not None and other.kind == "dataset":
        return
    message = (
        f"What {listed([producer.name])} gives is on the channel {listed([producer.channel])}, "
        f"not {listed([connection.channel])}"
    )
    path = (*connection.path, "channel")
    expected = producer.channel
    yield problem(path, "channel", message, expected=expected, found=connection.channel)


def _unconnected(item: Item, fed: Mapping[tuple[str, str], Connection]) -> Iterator[Problem]:
    missing = [name for name in item.inputs if (item.name, name) not in fed]
    if missing:
        message = f"Nothing feeds the input {listed(missing)} of {item.kind} {listed([item.name])}"
        place = ("inputs", item.inputs.index(missing[0])) if item.kind != "loop" else ()
        expected = "one connection to each input"
        yield problem((*item.path, *place), "unconnected", message, expected=expected)


def _from_problems(
    connection: Connection, by_name: Mapping[str, Item], outputs: Mapping[str, set[str]]
) -> Iterator[Problem]:
    producer = by_name.get(connection.from_item)
    path = (*connection.path, "from")
    if producer is None or producer.kind == "analyzer":
        message = f"There is no dataset or block {listed([connection.from_item])}"
        yield problem(path, "unknown", message, found=connection.from_item)
    elif connection.from_port not in outputs[producer.name]:
        known = listed(producer.outputs)
        port = listed([connection.from_port])
        message = f"{listed([producer.name])} has no output {port}; it has {known}"
        yield problem(path, "unknown", message, expected=known, found=connection.from_port)


def _to_problems(
    connection: Connection, by_name: Mapping[str, Item], inputs: Mapping[str, set[str]]
) -> Iterator[Problem]:
    consumer = by_name.get(connection.to_item)
    path = (*connection.path, "to")
    if consumer is None or consumer.kind == "dataset":
        message = f"There is no block or analyzer {listed([connection.to_item])}"
        yield problem(path, "unknown", message, found=connection.to_item)
    elif connection.to_port not in inputs[consumer.name]:
        known = listed(consumer.inputs)
        port = listed([connection.to_port])
        message = f"{listed([consumer.name])} has no input {port}; it has {known}"
        yield problem(path, "unknown", message, expected=known, found=connection.to_port)


def _representation_problems(
    toolchain: Mapping[str, Any], by_name: Mapping[str, Item]
) -> Iterator[Problem]:
    drawn = toolchain["representation"]
    lines = {f"{entry['from']}/{entry['to']}" for entry in toolchain["connections"]}
    for section, known, what in (
        ("connections", lines, "connection"),
        ("blocks", by_name, "dataset, block or analyzer"),
        ("channel_colors", {n for n, i in by_name.items() if i.kind == "dataset"}, "dataset"),
    ):
        for name in drawn[section]:
            if name not in known:
                message = f"The toolchain has no {what} {listed([name])} to draw"
                yield problem(("representation", section, name), "unknown", message, found=name)


# ---- order ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cycle:
    """Items that feed each other in a ring."""

    names: list[str]  #: the first one again at the end
    path: Path  #: of the connection that closes the ring


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
        text = " → ".join(_ends(cycle.names))
        raise BadDocument([problem(cycle.path, "cycle", f"The toolchain has a cycle: {text}")])
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
