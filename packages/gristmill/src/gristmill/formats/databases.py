"""Databases (schemas 1 and 2) and protocol templates: which sets exist, and what they give."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gristmill.formats import names
from gristmill.formats.documents import check_document
from gristmill.formats.problems import BadDocument, Path, Problem, listed, problem, told
from gristmill.formats.shapes import (
    DESCRIPTION,
    ENVIRONMENT,
    VALUES,
    Boolean,
    Items,
    Matching,
    Name,
    OneOf,
    Record,
    Reference,
    Shape,
    Table,
    wrong_type,
)

Templates = Mapping[str, Mapping[str, Any]]  #: "name/version" -> protocol template

_ROOT = re.compile(r"(?:file://)?(?:/[^/\0]+)+|nfs://[a-z0-9._-]+:(?:/[^/\0]+)+")
_OUTPUTS = Table(Reference(), least=1)
_VIEW = Name(names.PYTHON_NAME)
_TEMPLATE = Reference(names.database_ref_problem)
_SET = Record(
    {"name": Name(names.LABEL), "view": _VIEW, "outputs": _OUTPUTS},
    {"template": Name(names.LABEL), "parameters": VALUES},
    what="a set",
)
_PROTOCOL_1 = Record(
    {"name": Name(names.PROTOCOL), "template": Name(names.LABEL), "sets": Items(_SET, least=1)},
    what="a protocol",
)
_PROTOCOL_2 = Record(
    {
        "name": Name(names.PROTOCOL),
        "template": _TEMPLATE,
        "views": Table(Record({"view": _VIEW}, {"parameters": VALUES}, what="a view"), least=1),
    },
    what="a protocol",
)


def _is_root(text: str) -> bool:
    """Tell whether a text is a root folder; only a worker ever opens it."""
    if len(text) > 500 or not _ROOT.fullmatch(text):
        return False
    return not {".", ".."} & set(text.split("/"))


def _database(protocol: Record, version: int) -> Record:
    required: dict[str, Shape] = {
        "root_folder": Matching(_is_root, "a folder: /path, file:///path or nfs://host:/path"),
        "protocols": Items(protocol, least=1),
    }
    optional: dict[str, Shape] = {
        "description": DESCRIPTION,
        "environment": ENVIRONMENT,
        "direct_rawdata_access": Boolean(),
    }
    (required if version > 1 else optional)["schema_version"] = OneOf((version,))
    return Record(required, optional, what="a database")


_DATABASES = {1: _database(_PROTOCOL_1, 1), 2: _database(_PROTOCOL_2, 2)}
_PROTOCOL_TEMPLATE = Record(
    {
        "schema_version": OneOf((1,)),
        "sets": Items(Record({"name": Name(), "outputs": _OUTPUTS}, what="a set"), least=1),
    },
    {"description": DESCRIPTION},
    what="a protocol template",
)


@dataclass(frozen=True, slots=True)
class DataSet:
    """One set of a protocol."""

    view: str  #: name of the view class
    parameters: Mapping[str, Any]
    outputs: Mapping[str, str]  #: output -> data format


def check_database(declaration: Any, templates: Templates | None = None) -> list[Problem]:
    """Return what is wrong with a database.

    `templates` holds the protocol templates that schema 2 may name; when given, views are compared
    with the sets of their template.
    """
    return check_document(declaration) or told(_problems(declaration, templates))


def check_protocol_template(declaration: Any) -> list[Problem]:
    """Return what is wrong with a protocol template."""
    wrong = check_document(declaration) or told(_PROTOCOL_TEMPLATE.check(declaration, ()))
    return wrong or told(_doubled(declaration["sets"], ("sets",), "set"))


def _problems(declaration: Any, templates: Templates | None) -> Iterator[Problem]:
    if not isinstance(declaration, dict):
        yield wrong_type(declaration, (), "a database")
        return
    version = declaration.get("schema_version", 1)
    wrong = list(OneOf(tuple(_DATABASES)).check(version, ("schema_version",)))
    wrong = wrong or list(_DATABASES[version].check(declaration, ()))
    yield from wrong
    if wrong:
        return
    yield from _doubled(declaration["protocols"], ("protocols",), "protocol")
    for index, protocol in enumerate(declaration["protocols"]):
        if version == 1:
            yield from _doubled(protocol["sets"], ("protocols", index, "sets"), "set")
        elif templates is not None:
            yield from _view_problems(protocol, templates, ("protocols", index))


def _doubled(entries: list[dict[str, Any]], path: Path, what: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        if entry["name"] in seen:
            message = f"There are two {what}s of the name {listed([entry['name']])}"
            yield problem((*path, index, "name"), "duplicate", message, found=entry["name"])
        seen.add(entry["name"])


def _view_problems(
    protocol: Mapping[str, Any], templates: Templates, path: Path
) -> Iterator[Problem]:
    template = templates.get(protocol["template"])
    if template is None:
        message = f"There is no protocol template {protocol['template']}"
        yield problem((*path, "template"), "unknown", message, found=protocol["template"])
        return
    wanted = [entry["name"] for entry in template["sets"]]
    for name in protocol["views"]:
        if name not in wanted:
            message = f"The template {protocol['template']} has no set {listed([name])}"
            place = (*path, "views", name)
            yield problem(place, "unknown", message, expected=listed(wanted), found=name)
    for name in wanted:
        if name not in protocol["views"]:
            message = f"There is no view for the set {listed([name])} of the template"
            yield problem((*path, "views", name), "missing", message, expected="a view")


def data_sets(
    declaration: Mapping[str, Any], templates: Templates | None = None
) -> dict[str, dict[str, DataSet]]:
    """Return the sets of a (sound) database: protocol -> set -> what it gives.

    Raises BadDocument when a protocol template is not among `templates`.
    """
    if declaration.get("schema_version", 1) == 1:
        return {
            protocol["name"]: {entry["name"]: _of_set(entry) for entry in protocol["sets"]}
            for protocol in declaration["protocols"]
        }
    return {
        protocol["name"]: _of_template(protocol, templates or {}, ("protocols", index))
        for index, protocol in enumerate(declaration["protocols"])
    }


def _of_set(entry: Mapping[str, Any]) -> DataSet:
    return DataSet(entry["view"], entry.get("parameters", {}), entry["outputs"])


def _of_template(
    protocol: Mapping[str, Any], templates: Templates, path: Path
) -> dict[str, DataSet]:
    wrong = list(_view_problems(protocol, templates, path))
    if wrong:
        raise BadDocument(wrong)
    views = protocol["views"]
    return {
        entry["name"]: _of_set({**views[entry["name"]], "outputs": entry["outputs"]})
        for entry in templates[protocol["template"]]["sets"]
    }


def inlined(declaration: Mapping[str, Any], templates: Templates) -> dict[str, Any]:
    """Return a database of schema 2 as one of schema 1 that says the same without templates."""
    if declaration.get("schema_version", 1) == 1:
        return dict(declaration)
    protocols = [
        {
            "name": protocol["name"],
            "template": protocol["template"].split("/")[0],
            "sets": [
                {
                    "name": name,
                    "view": one.view,
                    "parameters": dict(one.parameters),
                    "outputs": dict(one.outputs),
                }
                for name, one in _of_template(protocol, templates, ("protocols", index)).items()
            ],
        }
        for index, protocol in enumerate(declaration["protocols"])
    ]
    return {**declaration, "schema_version": 1, "protocols": protocols}


def named_formats(declaration: Mapping[str, Any]) -> dict[str, Path]:
    """Return the data formats that a database (schema 1) names, each with its first place."""
    found: dict[str, Path] = {}
    for index, protocol in enumerate(declaration["protocols"]):
        for number, entry in enumerate(protocol.get("sets", ())):
            for output, ref in entry["outputs"].items():
                found.setdefault(ref, ("protocols", index, "sets", number, "outputs", output))
    return found
