"""Databases of schemas 1 and 2, and protocol templates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gristmill.formats import BadDocument, check_database, check_protocol_template, data_sets
from gristmill.formats.databases import inlined
from tests.formats import samples

TEMPLATES = {"simple/1": samples.template()}


def test_sound_databases_are_accepted() -> None:
    for declaration in samples.databases().values():
        assert check_database(declaration, TEMPLATES) == []
    assert check_protocol_template(samples.template()) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda d: d.update(root_folder="relative"), ("/root_folder", "value")),
        (lambda d: d.update(root_folder="/a/../etc"), ("/root_folder", "value")),
        (lambda d: d.update(protocols=[]), ("/protocols", "length")),
        (lambda d: d.update(schema_version=3), ("/schema_version", "value")),
        (lambda d: d["protocols"].append(d["protocols"][0]), ("/protocols/1/name", "duplicate")),
        (
            lambda d: d["protocols"][0]["sets"].append(d["protocols"][0]["sets"][0]),
            ("/protocols/0/sets/2/name", "duplicate"),
        ),
        (
            lambda d: d["protocols"][0]["sets"][0].update(view="not-python"),
            ("/protocols/0/sets/0/view", "name"),
        ),
        (
            lambda d: d["protocols"][0]["sets"][0].update(outputs={}),
            ("/protocols/0/sets/0/outputs", "length"),
        ),
        (
            lambda d: d["protocols"][0]["sets"][0]["parameters"].update(x=[1]),
            ("/protocols/0/sets/0/parameters/x", "type"),
        ),
    ],
)
def test_what_is_wrong_is_told(
    change: Callable[[dict[str, Any]], Any], expected: tuple[str, str]
) -> None:
    declaration = samples.database()
    change(declaration)
    assert expected in [(p.pointer, p.code) for p in check_database(declaration)]


def test_views_are_those_of_the_template() -> None:
    declaration = samples.database_2()
    views = declaration["protocols"][0]["views"]
    views["other"] = views.pop("test")
    assert [(p.pointer, p.code) for p in check_database(declaration, TEMPLATES)] == [
        ("/protocols/0/views/other", "unknown"),
        ("/protocols/0/views/test", "missing"),
    ]


def test_a_template_that_is_not_there_is_told() -> None:
    [problem] = check_database(samples.database_2(), {})
    assert (problem.pointer, problem.code) == ("/protocols/0/template", "unknown")
    with pytest.raises(BadDocument):
        data_sets(samples.database_2())


def test_both_schemas_give_the_same_sets() -> None:
    first = data_sets(samples.database())["small.1"]["test"]
    assert first == data_sets(samples.database_2(), TEMPLATES)["small.1"]["test"]
    assert first.outputs == {"a": "ann/labelled/1"}


def test_templates_are_put_in() -> None:
    declaration = inlined(samples.database_2(), TEMPLATES)
    assert check_database(declaration) == []
    assert data_sets(declaration) == data_sets(samples.database_2(), TEMPLATES)
    assert inlined(samples.database(), {}) == samples.database()
