"""Data formats: shapes, references, extension, what fits what."""

from __future__ import annotations

from typing import Any

import pytest

from gristmill.formats import BadDocument, check_dataformat, dataformats, fits, resolve
from tests.formats import samples


def codes(declaration: Any, known: Any = None) -> list[tuple[str, str]]:
    return [(p.pointer, p.code) for p in check_dataformat(declaration, known)]


def test_every_kind_of_type_is_accepted() -> None:
    assert codes(samples.everything_format(), samples.formats()) == []


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        ([], ("", "type")),
        ({}, ("", "length")),
        ({"x": "int31"}, ("/x", "value")),
        ({"x": 5}, ("/x", "type")),
        ({"x": ["int8"]}, ("/x", "length")),
        ({"x": [1, 2, 3, 4, 5, 6, "int8"]}, ("/x", "length")),
        ({"x": [-1, "int8"]}, ("/x/0", "value")),
        ({"x": ["y", "int8"]}, ("/x/0", "type")),
        ({"x": [0, [0, "int8"]]}, ("/x/1", "type")),
        ({"x y": "int8"}, ("/x y", "name")),
        ({"a/b": "int8"}, ("/a~1b", "name")),
        ({"x": {"y": {}}}, ("/x/y", "length")),
        ({"#extends": 3}, ("/#extends", "type")),
        ({"#description": "d" * 101, "x": "int8"}, ("/#description", "length")),
        ({"#extend": "ann/integer/1"}, ("/#extend", "name")),
    ],
)
def test_a_wrong_shape_is_told_with_its_place(declaration: Any, expected: tuple[str, str]) -> None:
    assert codes(declaration) == [expected]


def test_a_key_too_long_for_a_pointer_is_told_at_its_parent() -> None:
    assert codes({"x": {"k" * 10_000: "int8"}}) == [("/x", "name")]


def test_references_are_looked_up() -> None:
    declaration: dict[str, Any] = {
        "a": "ann/nothing/1",
        "b": {"c": [0, "ann/nothing/2"]},
        "#extends": "ann/no/1",
    }
    assert sorted(codes(declaration, {})) == [
        ("/#extends", "unknown"),
        ("/a", "unknown"),
        ("/b/c/1", "unknown"),
    ]


def test_recursion_is_told_with_its_path() -> None:
    known: dict[str, dict[str, Any]] = {
        "ann/a/1": {"x": "ann/b/1"},
        "ann/b/1": {"y": [0, {"z": "ann/a/1"}]},
    }
    [problem] = check_dataformat({"start": {"here": "ann/a/1"}}, known)
    assert problem.pointer == "/start/here"
    assert "ann/a/1 → ann/b/1 → ann/a/1" in problem.message


def test_extension_adds_fields_and_refuses_a_clash() -> None:
    known = samples.formats()
    assert resolve("ann/named/1", known) == {"value": "int32", "label": "string", "name": "string"}
    assert codes({"#extends": "ann/named/1", "label": "int8"}, known) == [("/label", "clash")]


def test_resolving_puts_in_what_is_referred_to() -> None:
    resolved = resolve("ann/everything/1", samples.formats())
    assert resolved["one"] == {"value": "int32"}
    assert resolved["many"] == [3, {"value": "int32"}]
    assert not any(key.startswith("#") for key in resolved)


def test_formats_that_double_at_each_level_are_refused() -> None:
    known: dict[str, dict[str, Any]] = {"ann/f/1": {"x": "int8"}}
    for version in range(2, 30):
        known[f"ann/f/{version}"] = {"a": f"ann/f/{version - 1}", "b": f"ann/f/{version - 1}"}
    with pytest.raises(BadDocument, match=f"more than {dataformats.MOST_FIELDS} fields"):
        resolve("ann/f/29", known)


def test_a_long_chain_of_references_is_refused_not_recursed() -> None:
    known: dict[str, dict[str, Any]] = {"ann/f/1": {"x": "int8"}}
    for version in range(2, 5_000):
        known[f"ann/f/{version}"] = {"a": f"ann/f/{version - 1}"}
    with pytest.raises(BadDocument, match="levels deep"):
        resolve("ann/f/4999", known)


def test_a_port_takes_its_own_format_and_its_extensions() -> None:
    known = samples.formats()
    assert fits("ann/integer/1", "ann/integer/1", known)
    assert fits("ann/named/1", "ann/integer/1", known)
    assert not fits("ann/integer/1", "ann/named/1", known)
    assert not fits("ann/everything/1", "ann/integer/1", known)


def test_an_extension_in_a_ring_ends() -> None:
    known = {"a/a/1": {"#extends": "a/b/1"}, "a/b/1": {"#extends": "a/a/1"}}
    assert not fits("a/a/1", "a/c/1", known)
