"""Experiments: the form of a declaration, and how it resolves to one configuration a block.

Whether it fits its toolchain, algorithms and databases is checked in `fitting`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gristmill.formats import names
from gristmill.formats.documents import check_document
from gristmill.formats.problems import Path, Problem, told
from gristmill.formats.shapes import (
    DESCRIPTION,
    ENVIRONMENT,
    VALUES,
    Integer,
    Name,
    OneOf,
    Record,
    Reference,
    Shape,
    Table,
    Text,
    wrong_type,
)

_QUEUE = Text(100, "the name of a queue")
_PORT_MAP = Table(Name(names.LABEL), least=1)
_DATASET = Record(
    {
        "database": Reference(names.database_ref_problem),
        "protocol": Name(names.PROTOCOL),
        "set": Name(names.LABEL),
    },
    what="a dataset",
)
_RUN: dict[str, Shape] = {
    "parameters": VALUES,
    "queue": _QUEUE,
    "environment": ENVIRONMENT,
    "nb_slots": Integer(1, 1_000_000),
}
_BLOCK = Record(
    {"algorithm": Reference(), "inputs": _PORT_MAP, "outputs": _PORT_MAP}, _RUN, what="a block"
)
_ANALYZER = Record({"algorithm": Reference(), "inputs": _PORT_MAP}, _RUN, what="an analyzer")
_LOOP = Record(
    {
        f"{part}_{key}": shape
        for part in ("processor", "evaluator")
        for key, shape in (
            ("algorithm", Reference()),
            ("inputs", _PORT_MAP),
            ("outputs", _PORT_MAP),
        )
    },
    {
        "queue": _QUEUE,
        "nb_slots": Integer(1, 1_000_000),
        **{
            f"{part}_{key}": shape
            for part in ("processor", "evaluator")
            for key, shape in (("parameters", VALUES), ("environment", ENVIRONMENT))
        },
    },
    what="a loop",
)
_EXPERIMENT = Record(
    {
        "datasets": Table(_DATASET, names.LABEL, least=1),
        "blocks": Table(_BLOCK),
        "analyzers": Table(_ANALYZER),
    },
    {
        "loops": Table(_LOOP),
        "description": DESCRIPTION,
        "schema_version": OneOf((1, 2)),
    },
    what="an experiment",
)
_GLOBALS: dict[str, Shape] = {"queue": _QUEUE, "environment": ENVIRONMENT}

SECTIONS = ("datasets", "blocks", "loops", "analyzers")


def check_experiment_form(experiment: Any) -> list[Problem]:
    """Return what is wrong with the form of an experiment; what it names is not looked up."""
    return check_document(experiment) or told(_form(experiment))


def _form(experiment: Any) -> Iterator[Problem]:
    if not isinstance(experiment, dict):
        yield wrong_type(experiment, (), "an experiment")
        return
    own = {key: value for key, value in experiment.items() if key != "globals"}
    yield from _EXPERIMENT.check(own, ())
    yield from _globals(experiment.get("globals", {}))


def _globals(section: Any) -> Iterator[Problem]:
    if not isinstance(section, dict):
        yield wrong_type(section, ("globals",), "an object")
        return
    for key, value in section.items():
        path: Path = ("globals", key)
        if key in _GLOBALS:
            yield from _GLOBALS[key].check(value, path)
        elif wrong := names.ref_problem(key, path):
            yield wrong
        else:
            yield from VALUES.check(value, path)


@dataclass(frozen=True, slots=True)
class Configured:
    """One block, analyzer, or half of a loop, with globals filled in; values are as written."""

    name: str  #: of the item in the toolchain
    kind: str  #: "block", "analyzer", "processor" or "evaluator" (both of a loop)
    algorithm: str
    inputs: Mapping[str, str]  #: the algorithm's input -> the toolchain's
    outputs: Mapping[str, str]
    parameters: Mapping[str, Any]  #: of the algorithm's section in globals, then of the block
    queue: str | None  #: None where neither the block nor globals name one
    environment: tuple[str, str] | None
    slots: int
    path: Path  #: of the block in the declaration
    prefix: str = ""  #: of the keys, in a loop

    def key(self, name: str) -> Path:
        """Return the path of one of its keys."""
        return (*self.path, f"{self.prefix}{name}")


def configured(experiment: Mapping[str, Any]) -> Iterator[Configured]:
    """Yield what runs, of an experiment of the right form: blocks, loops, analyzers as written."""
    defaults = experiment.get("globals", {})
    for name, entry in experiment["blocks"].items():
        yield _configured(name, "block", entry, defaults, ("blocks", name))
    for name, entry in experiment.get("loops", {}).items():
        for kind in ("processor", "evaluator"):
            yield _configured(name, kind, entry, defaults, ("loops", name), f"{kind}_")
    for name, entry in experiment["analyzers"].items():
        yield _configured(name, "analyzer", entry, defaults, ("analyzers", name))


def _configured(
    name: str,
    kind: str,
    entry: Mapping[str, Any],
    defaults: Mapping[str, Any],
    path: Path,
    prefix: str = "",
) -> Configured:
    algorithm = entry[f"{prefix}algorithm"]
    environment = entry.get(f"{prefix}environment", defaults.get("environment"))
    return Configured(
        name=name,
        kind=kind,
        algorithm=algorithm,
        inputs=entry[f"{prefix}inputs"],
        outputs=entry.get(f"{prefix}outputs", {}),
        parameters={**defaults.get(algorithm, {}), **entry.get(f"{prefix}parameters", {})},
        queue=entry.get("queue", defaults.get("queue")),
        environment=(environment["name"], environment["version"]) if environment else None,
        slots=entry.get("nb_slots", 1),
        path=path,
        prefix=prefix,
    )


def named(experiment: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """Return the algorithms and the databases that an experiment of the right form names."""
    algorithms = {one.algorithm for one in configured(experiment)}
    return algorithms, {entry["database"] for entry in experiment["datasets"].values()}
