"""Algorithms: the declarations of BEAT's schemas 1, 2 and 3.

A group holds the ports of one synchronised channel; the first group is the one whose data units
the algorithm walks through, and the only one with outputs. An analyzer has `results` instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gristmill.formats import parameters
from gristmill.formats.documents import check_document
from gristmill.formats.names import Ref
from gristmill.formats.problems import BadDocument, Path, Problem, listed, problem, told
from gristmill.formats.shapes import (
    DESCRIPTION,
    LANGUAGE,
    USES,
    Anything,
    Boolean,
    Integer,
    Items,
    Matching,
    OneOf,
    Record,
    Reference,
    Shape,
    Table,
    Text,
    missing,
    wrong_type,
)

_PORTS = Table(Record({"type": Reference()}, {"description": Text()}, what="a port"), least=1)
_INPUT_GROUP = Record({"inputs": _PORTS}, {"name": Text(100)}, what="a group of inputs")
_IO_GROUP = Record(
    {"inputs": _PORTS, "outputs": _PORTS}, {"name": Text(100)}, what="a group of inputs and outputs"
)
_PORT = Record({"type": Reference()}, {"description": Text()}, what="a port")
_LOOP_GROUP = Record(
    {
        "inputs": _PORTS,
        "outputs": _PORTS,
        "loop": Record({"request": _PORT, "answer": _PORT}, what="a loop"),
    },
    {"name": Text(100)},
    what="a group of inputs and outputs with a loop",
)

_RESULT_TYPES = ("int32", "float32", "bool", "string")


def _is_result_type(text: str) -> bool:
    if text in _RESULT_TYPES:
        return True
    try:
        return Ref.parse(text).owner in ("system", "plot")
    except BadDocument:
        return False


_RESULTS = Table(
    Record(
        {
            "type": Matching(
                _is_result_type,
                "int32, float32, bool, string, system/name/version or plot/name/version",
            )
        },
        {"display": Boolean(), "description": Text()},
        what="a result",
    ),
    least=1,
)

TYPES = {
    1: ("legacy",),
    2: ("legacy", "sequential", "autonomous"),
    3: (
        "legacy",
        "sequential",
        "autonomous",
        "sequential_loop_processor",
        "autonomous_loop_processor",
        "sequential_loop_evaluator",
        "autonomous_loop_evaluator",
    ),
}


def check_algorithm(declaration: Any) -> list[Problem]:
    """Return what is wrong with an algorithm's declaration."""
    return check_document(declaration) or told(_problems(declaration))


def _problems(declaration: Any) -> Iterator[Problem]:
    if not isinstance(declaration, dict):
        yield wrong_type(declaration, (), "an algorithm")
        return
    version = declaration.get("schema_version", 1)
    wrong = list(OneOf(tuple(TYPES)).check(version, ("schema_version",)))
    wrong += _versioned(declaration, version) if not wrong else []
    yield from wrong
    if not wrong:
        yield from _doubled_ports(declaration["groups"])
        yield from _useless_split(declaration)


def _versioned(declaration: dict[str, Any], version: int) -> list[Problem]:
    """Check the shape that the schema's version and the kind of algorithm ask for."""
    type_ = declaration.get("type", "legacy")
    wrong = list(OneOf(TYPES[version]).check(type_, ("type",)))
    if version > 1:
        wrong += [missing((), key) for key in ("type", "api_version") if key not in declaration]
    if wrong:
        return wrong
    wrong = list(_record(declaration, version, type_).check(declaration, ()))
    wrong += _groups_problems(declaration, type_)
    if "parameters" in declaration:
        wrong += parameters.check_declared(declaration["parameters"], ("parameters",))
    return wrong


def _record(declaration: dict[str, Any], version: int, type_: str) -> Record:
    required: dict[str, Shape] = {"language": LANGUAGE, "groups": Anything()}
    optional: dict[str, Shape] = {
        "description": DESCRIPTION,
        "uses": USES,
        "parameters": Anything(),
        "schema_version": Integer(1, 3),
        "type": Anything(),
        "api_version": Integer(1, 1 if version == 1 else 2),
    }
    if is_analyzer(declaration):
        required["results"] = _RESULTS
        optional["splittable"] = Boolean()
        return Record(required, optional, what="an analyzer")
    if type_.endswith("_loop_evaluator"):
        return Record(required, optional, what="a loop evaluator")
    required["splittable"] = Boolean()
    return Record(required, optional, what="an algorithm")


def _groups_problems(declaration: Mapping[str, Any], type_: str) -> list[Problem]:
    if "groups" not in declaration:
        return []
    groups = declaration["groups"]
    if not isinstance(groups, list) or not groups:
        return list(Items(Anything(), least=1).check(groups, ("groups",)))
    first: Shape = _IO_GROUP
    if is_analyzer(declaration):
        first = _INPUT_GROUP
    elif "_loop_" in type_:
        first = _LOOP_GROUP
    wrong = list(first.check(groups[0], ("groups", 0)))
    for index, group in enumerate(groups[1:], 1):
        wrong += _INPUT_GROUP.check(group, ("groups", index))
    return wrong


def _doubled_ports(groups: list[dict[str, Any]]) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, group in enumerate(groups):
        for name in group["inputs"]:
            if name in seen:
                path: Path = ("groups", index, "inputs", name)
                message = f"The input {listed([name])} stands in two groups"
                yield problem(path, "duplicate", message, found=name)
            seen.add(name)


def _useless_split(declaration: Mapping[str, Any]) -> Iterator[Problem]:
    if is_analyzer(declaration) and declaration.get("splittable"):
        message = "An analyzer sees all its data: it cannot be splittable"
        yield problem(("splittable",), "value", message, expected="false", found=True)


def is_analyzer(declaration: Mapping[str, Any]) -> bool:
    """Tell whether an algorithm is an analyzer: it has results, and no outputs."""
    return "results" in declaration


def is_splittable(declaration: Mapping[str, Any]) -> bool:
    """Tell whether an algorithm's work may be cut into ranges of data units."""
    return declaration.get("splittable") is True


def inputs(declaration: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    """Return each input's group and data format."""
    return {
        name: (index, port["type"])
        for index, group in enumerate(declaration["groups"])
        for name, port in group["inputs"].items()
    }


def outputs(declaration: Mapping[str, Any]) -> dict[str, str]:
    """Return each output's data format; an analyzer has none."""
    return {
        name: port["type"]
        for group in declaration["groups"]
        for name, port in group.get("outputs", {}).items()
    }


def named_formats(declaration: Mapping[str, Any]) -> dict[str, Path]:
    """Return the data formats that an algorithm's ports name, each with the first place of it.

    Types of results (`plot/…`, `system/…`) say how to show a result; they need no declaration.
    """
    found: dict[str, Path] = {}
    for index, group in enumerate(declaration["groups"]):
        for kind in ("inputs", "outputs"):
            for name, port in group.get(kind, {}).items():
                found.setdefault(port["type"], ("groups", index, kind, name, "type"))
        for name, port in group.get("loop", {}).items():
            found.setdefault(port["type"], ("groups", index, "loop", name, "type"))
    return found
