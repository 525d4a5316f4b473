"""Toolchains: graphs that are told what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gristmill.formats import (
    BadDocument,
    check_toolchain,
    predecessors,
    toolchains,
    topological_order,
)
from tests.formats import samples


def found(toolchain: Any) -> list[tuple[str, str]]:
    return [(p.pointer, p.code) for p in check_toolchain(toolchain)]


def test_sound_toolchains_are_accepted() -> None:
    assert found(samples.toolchain()) == []
    assert found(samples.loop_toolchain()) == []


Change = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda t: t.pop("datasets"), ("/datasets", "missing")),
        (lambda t: t.update(colour=1), ("/colour", "unexpected")),
        (lambda t: t["blocks"][0].pop("inputs"), ("/blocks/0/inputs", "missing")),
        (lambda t: t["blocks"][0].update(inputs=[]), ("/blocks/0/inputs", "length")),
        (lambda t: t["blocks"][0]["inputs"].append("a"), ("/blocks/0/inputs/2", "duplicate")),
        (lambda t: t["blocks"][0].update(name="../x"), ("/blocks/0/name", "name")),
        (lambda t: t["blocks"][0].update(name="<b>"), ("/blocks/0/name", "name")),
        (lambda t: t["blocks"][0].update(name="😀"), ("/blocks/0/name", "name")),
        (lambda t: t["blocks"][0].update(name="x" * 10_000), ("/blocks/0/name", "name")),
        (lambda t: t["blocks"][1].update(name="add"), ("/blocks/1/name", "duplicate")),
        (lambda t: t["blocks"][0].update(name="train"), ("/blocks/0/name", "duplicate")),
        (
            lambda t: t["blocks"][0].update(synchronized_channel="add"),
            ("/blocks/0/synchronized_channel", "channel"),
        ),
        (
            lambda t: t["connections"][0].update(channel="test"),
            ("/connections/0/channel", "channel"),
        ),
        (lambda t: t["connections"][0].update({"from": "x"}), ("/connections/0/from", "value")),
        (
            lambda t: t["connections"][0].update({"from": "gone.a"}),
            ("/connections/0/from", "unknown"),
        ),
        (
            lambda t: t["connections"][0].update({"from": "train.c"}),
            ("/connections/0/from", "unknown"),
        ),
        (lambda t: t["connections"][0].update({"to": "gone.a"}), ("/connections/0/to", "unknown")),
        (lambda t: t["connections"][0].update({"to": "add.c"}), ("/connections/0/to", "unknown")),
        (lambda t: t["connections"][0].update({"to": "train.a"}), ("/connections/0/to", "unknown")),
        (
            lambda t: t["connections"][4].update({"from": "mean.score"}),
            ("/connections/4/from", "unknown"),
        ),
        (
            lambda t: t["connections"][1].update({"to": "add.a"}),
            ("/connections/1/to", "connected_twice"),
        ),
        (lambda t: t["connections"].pop(1), ("/blocks/0/inputs/1", "unconnected")),
        (
            lambda t: t["representation"]["connections"].update({"a.b/c.d": []}),
            ("/representation/connections/a.b~1c.d", "unknown"),
        ),
        (
            lambda t: t["representation"]["channel_colors"].update(train="red"),
            ("/representation/channel_colors/train", "value"),
        ),
        (
            lambda t: t["representation"]["channel_colors"].update(add="#000000"),
            ("/representation/channel_colors/add", "unknown"),
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(change: Change, expected: tuple[str, str]) -> None:
    toolchain = samples.toolchain()
    change(toolchain)
    assert expected in found(toolchain)


@pytest.mark.parametrize("value", [None, 5, "x", [], {}, {"blocks": 5}, {"blocks": [5]}])
def test_what_is_no_toolchain_is_told(value: Any) -> None:
    assert check_toolchain(value)


def test_an_output_may_be_left_unconnected() -> None:
    toolchain = samples.toolchain()
    toolchain["blocks"][0]["outputs"].append("unused")
    assert found(toolchain) == []


def chain(length: int, *, closed: bool = False) -> dict[str, Any]:
    """Blocks in a row; `closed` feeds the last one's output to the first."""
    blocks = [
        {
            "name": f"b{n}",
            "synchronized_channel": "data",
            "inputs": ["in", "back"] if n == 0 and closed else ["in"],
            "outputs": ["out"],
        }
        for n in range(length)
    ]
    lines = [("data.out", "b0.in"), *((f"b{n - 1}.out", f"b{n}.in") for n in range(1, length))]
    if closed:
        lines.append((f"b{length - 1}.out", "b0.back"))
    return {
        "datasets": [{"name": "data", "outputs": ["out"]}],
        "blocks": blocks,
        "analyzers": [],
        "connections": [{"from": a, "to": b, "channel": "data"} for a, b in lines],
        "representation": {"connections": {}, "blocks": {}, "channel_colors": {}},
    }


def test_a_cycle_is_told_with_its_path() -> None:
    [problem] = check_toolchain(chain(3, closed=True))
    assert problem.code == "cycle"
    assert problem.pointer == "/connections/3"
    assert "b0 → b1 → b2 → b0" in problem.message
    with pytest.raises(BadDocument, match="b0 → b1 → b2 → b0"):
        topological_order(chain(3, closed=True))


def test_a_block_that_feeds_itself_is_a_cycle() -> None:
    [problem] = check_toolchain(chain(1, closed=True))
    assert "b0 → b0" in problem.message


def test_a_hundred_thousand_blocks_in_a_row_are_ordered_without_recursion() -> None:
    toolchain = chain(100_000)
    assert check_toolchain(toolchain) == []
    assert topological_order(toolchain) == ["data", *(f"b{n}" for n in range(100_000))]


def test_a_cycle_of_a_hundred_thousand_blocks_has_a_short_message() -> None:
    [problem] = check_toolchain(chain(100_000, closed=True))
    assert problem.code == "cycle"
    assert len(problem.message) < 300


class Counting(dict[str, Any]):
    """A connection that counts how often it is read."""

    reads = 0

    def __getitem__(self, key: str) -> Any:
        Counting.reads += 1
        return super().__getitem__(key)


def test_ordering_reads_each_connection_a_fixed_number_of_times() -> None:
    reads = []
    for length in (100, 10_000):
        toolchain = chain(length)
        toolchain["connections"] = [Counting(line) for line in toolchain["connections"]]
        Counting.reads = 0
        topological_order(toolchain)
        reads.append(Counting.reads / length)
    assert reads[0] == reads[1]


def test_a_thousand_wrong_blocks_give_a_bounded_answer() -> None:
    toolchain = chain(2_000)
    for block in toolchain["blocks"]:
        block["name"] = "<" + "x" * 5_000
    problems = check_toolchain(toolchain)
    assert len(problems) == 100
    assert sum(len(p.message) + len(p.found or "") for p in problems) < 50_000


def test_ties_are_ordered_as_written() -> None:
    assert topological_order(samples.toolchain()) == ["train", "test", "add", "score", "mean"]
    assert predecessors(samples.toolchain())["score"] == ["test", "add"]


def test_the_ports_of_a_loop_are_those_of_both_halves() -> None:
    loop = next(i for i in toolchains.items(samples.loop_toolchain()) if i.kind == "loop")
    assert loop.inputs == ("in", "in2")
    assert loop.outputs == ("out", "out2")


def test_only_a_loop_takes_data_for_those_of_another_channel() -> None:
    toolchain = samples.loop_toolchain()
    toolchain["connections"][1]["channel"] = "gone"
    assert found(toolchain) == [("/connections/1/channel", "channel")]
