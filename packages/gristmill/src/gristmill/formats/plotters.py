"""Plotters and plotter parameters: read and checked, as BEAT's prefixes hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gristmill.formats import parameters
from gristmill.formats.documents import check_document
from gristmill.formats.problems import Problem, told
from gristmill.formats.shapes import (
    DESCRIPTION,
    LANGUAGE,
    USES,
    VALUES,
    Anything,
    Integer,
    Record,
    Reference,
)

_PLOTTER = Record(
    {"language": LANGUAGE, "parameters": Anything(), "dataformat": Reference(owners=("plot",))},
    {"uses": USES, "description": DESCRIPTION, "schema_version": Integer(1, 1)},
    what="a plotter",
)
_PLOTTER_PARAMETERS = Record(
    {"plotter": Reference(), "data": VALUES},
    {"description": DESCRIPTION, "schema_version": Integer(1, 1)},
    what="parameters of a plotter",
)


def check_plotter(declaration: Any) -> list[Problem]:
    """Return what is wrong with a plotter's declaration."""
    wrong = check_document(declaration) or told(_PLOTTER.check(declaration, ()))
    if isinstance(declaration, dict) and "parameters" in declaration:
        wrong += parameters.check_declared(declaration["parameters"], ("parameters",))
    return told(wrong)


def check_plotter_parameters(
    declaration: Any, plotters: Mapping[str, Mapping[str, Any]] | None = None
) -> list[Problem]:
    """Return what is wrong with values for a plotter; `plotters` holds the known ones."""
    wrong = check_document(declaration) or told(_PLOTTER_PARAMETERS.check(declaration, ()))
    if wrong or plotters is None:
        return wrong
    ref = declaration["plotter"]
    if ref not in plotters:
        return [Problem("/plotter", f"There is no plotter {ref}", "unknown", None, f'"{ref}"')]
    return told(
        parameters.parameter_problems(plotters[ref], declaration["data"], ("data",), complete=False)
    )
