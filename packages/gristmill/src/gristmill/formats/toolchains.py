"""Toolchains: a graph of datasets, blocks and analyzers (and, in schema 2, loops).

BEAT's own software never ends on a cycle; here it is told with its path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gristmill.formats import names
from gristmill.formats.documents import check_document
from gristmill.formats.graph import (
    Connection,
    Item,
    connections,
    find_cycle,
    items,
    predecessors,
    topological_order,
)
from gristmill.formats.problems import Problem, listed, problem, told
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

__all__ = [
    "Connection",
    "Item",
    "check_toolchain",
    "connections",
    "find_cycle",
    "items",
    "predecessors",
    "topological_order",
]

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
        message = f"The toolchain has a cycle: {cycle}"
        yield problem(cycle.path, "cycle", message, expected="no cycle")


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
