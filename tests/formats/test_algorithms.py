"""Algorithms of schemas 1, 2 and 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gristmill.formats import algorithms, check_algorithm
from tests.formats import samples


@pytest.mark.parametrize("ref", samples.algorithms())
def test_sound_algorithms_are_accepted(ref: str) -> None:
    assert check_algorithm(samples.algorithms()[ref]) == []


def legacy(**changes: Any) -> dict[str, Any]:
    declaration = {"language": "python", "splittable": False, "groups": samples.adder()["groups"]}
    return declaration | changes


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"language": "perl"}, ("/language", "value")),
        ({"colour": 1}, ("/colour", "unexpected")),
        ({"splittable": "yes"}, ("/splittable", "type")),
        ({"groups": []}, ("/groups", "length")),
        ({"groups": {}}, ("/groups", "type")),
        ({"groups": [{"inputs": {"a": {"type": "a/b/1"}}}]}, ("/groups/0/outputs", "missing")),
        ({"type": "sequential"}, ("/type", "value")),
        ({"schema_version": 4}, ("/schema_version", "value")),
        ({"schema_version": True}, ("/schema_version", "value")),
        ({"schema_version": 2}, ("/type", "missing")),
        ({"description": "x" * 101}, ("/description", "length")),
        ({"uses": {"a-b": "a/b/1"}}, ("/uses/a-b", "name")),
        ({"uses": {"a": "a/../1"}}, ("/uses/a", "name")),
        ({"parameters": []}, ("/parameters", "type")),
        ({"parameters": {"p": {"type": "int7"}}}, ("/parameters/p/type", "value")),
    ],
)
def test_a_wrong_declaration_is_told_with_its_place(
    changes: dict[str, Any], expected: tuple[str, str]
) -> None:
    found = [(p.pointer, p.code) for p in check_algorithm(legacy(**changes))]
    assert expected in found


def test_a_block_says_whether_it_is_splittable() -> None:
    declaration = legacy()
    del declaration["splittable"]
    assert [(p.pointer, p.code) for p in check_algorithm(declaration)] == [
        ("/splittable", "missing")
    ]


def test_an_input_in_two_groups_is_told() -> None:
    declaration = samples.trained()
    declaration["groups"][1]["inputs"]["value"] = {"type": "ann/integer/1"}
    assert [(p.pointer, p.code) for p in check_algorithm(declaration)] == [
        ("/groups/1/inputs/value", "duplicate")
    ]


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        ({"type": "int8", "default": 300}, ("/default", "value")),
        ({"type": "int8", "default": "x"}, ("/default", "value")),
        ({"type": "int8", "default": None}, ("/default", "type")),
        ({"type": "int8", "default": 5, "range": [5, 1]}, ("/range", "range")),
        ({"type": "int8", "default": 9, "range": [1, 5]}, ("/default", "range")),
        ({"type": "int8", "default": 9, "range": [1, 5000]}, ("/range/1", "value")),
        ({"type": "int8", "range": [1]}, ("/range", "length")),
        ({"type": "string", "range": ["a", "b"]}, ("/range", "unexpected")),
        ({"type": "string", "default": "c", "choice": ["a", "b"]}, ("/default", "choice")),
        ({"type": "string", "choice": []}, ("/choice", "length")),
        ({"type": "int8", "choice": [1, "two"]}, ("/choice/1", "value")),
        ({"type": "int8", "choice": [1], "range": [0, 2]}, ("/choice", "unexpected")),
        ({"type": "int8", "colour": 1}, ("/colour", "unexpected")),
    ],
)
def test_a_wrong_parameter_is_told(parameter: dict[str, Any], expected: tuple[str, str]) -> None:
    found = check_algorithm(legacy(parameters={"p": parameter}))
    assert (f"/parameters/p{expected[0]}", expected[1]) in [(p.pointer, p.code) for p in found]


def test_two_choices_are_enough() -> None:
    parameters = {"p": {"type": "string", "choice": ["a", "b"], "default": "a"}}
    assert check_algorithm(legacy(parameters=parameters)) == []


def test_results_have_the_types_of_results() -> None:
    declaration = samples.analyzer()
    declaration["results"]["mean"]["type"] = "float64"
    declaration["results"]["plot"]["type"] = "user/scatter/1"
    assert [p.pointer for p in check_algorithm(declaration)] == [
        "/results/mean/type",
        "/results/plot/type",
    ]


def test_an_analyzer_is_never_split() -> None:
    found = check_algorithm(samples.analyzer() | {"splittable": True})
    assert [(p.pointer, p.code) for p in found] == [("/splittable", "value")]


@pytest.mark.parametrize("make", [samples.adder, samples.trained, samples.analyzer])
def test_ports_and_formats_are_read_off(make: Callable[[], dict[str, Any]]) -> None:
    declaration = make()
    assert set(algorithms.named_formats(declaration)) >= {
        format_ for _, format_ in algorithms.inputs(declaration).values()
    }
    assert algorithms.is_analyzer(declaration) == (algorithms.outputs(declaration) == {})
