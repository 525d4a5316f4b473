"""The handwritten-digits example: its declarations are sound, and it reads digits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gristmill import formats
from gristmill.prefixes import Prefix, in_order, owned_by, read_prefix
from tests.examples.local import LocalRun

pytestmark = pytest.mark.e2e
DIGITS = Path(__file__).parents[2] / "examples/digits"


@pytest.fixture(scope="module")
def prefix() -> Prefix:
    return read_prefix(DIGITS)


def declarations(prefix: Prefix, kind: str) -> dict[str, dict[str, Any]]:
    return {ref: dict(one.declaration) for ref, one in prefix.of(kind).items()}


@pytest.mark.parametrize("owner", ["user", "ann"])
def test_the_declarations_are_sound(prefix: Prefix, owner: str) -> None:
    mine = owned_by(prefix, owner)
    known = {kind: declarations(mine, kind) for kind in ("dataformats", "libraries", "databases")}
    algorithms = declarations(mine, "algorithms")
    for declaration in known["dataformats"].values():
        assert formats.check_dataformat(declaration, known["dataformats"]) == []
    for ref, declaration in known["libraries"].items():
        assert formats.check_library(declaration, known["libraries"], ref) == []
    for declaration in algorithms.values():
        assert formats.check_algorithm(declaration) == []
    for declaration in known["databases"].values():
        assert formats.check_database(declaration) == []
    [toolchain] = declarations(mine, "toolchains").values()
    assert formats.check_toolchain(toolchain) == []
    [experiment] = mine.experiments
    assert experiment.toolchain == f"{owner}/digits/1"
    assert formats.check_experiment(experiment.declaration, toolchain, algorithms, **known) == []


def test_it_is_as_large_as_promised(prefix: Prefix) -> None:
    [toolchain] = prefix.of("toolchains").values()
    assert len(formats.topological_order(toolchain.declaration)) >= 8
    assert any(one.declaration.get("splittable") for one in prefix.of("algorithms").values())


def test_what_is_referred_to_comes_first(prefix: Prefix) -> None:
    order = [one.ref for one in in_order(prefix) if one.kind == "libraries"]
    assert order.index("user/squares/1") < order.index("user/images/1")


@pytest.mark.parametrize("slots", [1, 3])
def test_it_reads_digits_and_slots_change_nothing(
    prefix: Prefix, tmp_path: Path, slots: int
) -> None:
    [experiment] = prefix.experiments
    results = LocalRun(prefix, experiment, tmp_path, slots).run()["summary"]
    values = {name: result["value"] for name, result in results.items()}
    assert values["images"] == 450
    assert values["accuracy_first"] == pytest.approx(0.98, abs=1e-4)
    assert values["accuracy_second"] == pytest.approx(0.9711, abs=1e-4)
    assert values["accuracy"] == pytest.approx(0.9867, abs=1e-4)
    table = values["confusion"]
    assert sum(sum(row[1:]) for row in table["rows"]) == 450
    right = sum(row[1 + digit] for digit, row in enumerate(table["rows"]))
    assert right / 450 == pytest.approx(values["accuracy"], abs=1e-6)
    assert values["confusion_plot"]["data"]["values"][0] == {
        "truth": 0,
        "predicted": 0,
        "images": table["rows"][0][1],
    }
