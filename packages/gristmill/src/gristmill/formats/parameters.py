"""Parameters of algorithms: their declarations, and the values that people give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gristmill.formats.problems import BadDocument, Path, Problem, listed, problem
from gristmill.formats.shapes import Items, OneOf, Record, Scalar, Table, Text
from gristmill.formats.values import BASE_TYPES, BadCast, cast

_PARAMETER = Record(
    {"type": OneOf(BASE_TYPES)},
    {
        "default": Scalar(),
        "description": Text(),
        "range": Items(Scalar(), least=2, most=2),
        # BEAT's schema means to ask for three and does not: published algorithms have two
        "choice": Items(Scalar(), least=1, most=10_000),
    },
    what="a parameter",
)
PARAMETERS = Table(_PARAMETER)


def check_declared(parameters: Any, path: Path) -> Iterator[Problem]:
    """Yield what is wrong with the `parameters` of a declaration."""
    wrong = list(PARAMETERS.check(parameters, path))
    yield from wrong
    if not wrong:
        for name, declared in parameters.items():
            yield from _contradictions(declared, (*path, name))


def _contradictions(declared: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    if "range" in declared and "choice" in declared:
        message = "A parameter has a range or a choice, not both"
        yield problem((*path, "choice"), "unexpected", message, expected="range or choice")
    wrong = [*_uncastable(declared, path), *_bad_range(declared, path)]
    yield from wrong
    if not wrong and "default" in declared:
        yield from value_problems(declared, declared["default"], (*path, "default"))


def _uncastable(declared: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    for key in ("range", "choice"):
        for index, value in enumerate(declared.get(key, ())):
            yield from _cast_problems(value, declared["type"], (*path, key, index))


def _cast_problems(value: Any, type_: str, path: Path) -> Iterator[Problem]:
    try:
        cast(value, type_)
    except BadCast as error:
        message = f"This is not of type {type_}: it must be {error}"
        yield problem(path, "value", message, expected=str(error), found=value)


def _bad_range(declared: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    if "range" not in declared:
        return
    type_ = declared["type"]
    if type_ in ("bool", "string") or type_.startswith("complex"):
        message = f"A parameter of type {type_} has no range"
        yield problem((*path, "range"), "unexpected", message, expected="a choice", found=type_)
        return
    try:
        low, high = (cast(value, type_) for value in declared["range"])
    except BadCast:
        return
    if low >= high:
        message = "The first number of a range must be less than the second"
        yield problem((*path, "range"), "range", message, found=f"{low} to {high}")


def value_problems(declared: Mapping[str, Any], value: Any, path: Path) -> Iterator[Problem]:
    """Yield what is wrong with a value for one (sound) declared parameter."""
    type_ = declared["type"]
    wrong = list(_cast_problems(value, type_, path))
    yield from wrong
    if wrong:
        return
    number = cast(value, type_)
    if "range" in declared:
        low, high = (cast(bound, type_) for bound in declared["range"])
        if not low <= number <= high:
            expected = f"from {low} to {high}"
            message = f"This is out of range: {expected}"
            yield problem(path, "range", message, expected=expected, found=value)
    if "choice" in declared:
        choices = [cast(choice, type_) for choice in declared["choice"]]
        if number not in choices:
            expected = "one of " + listed(str(choice) for choice in choices)
            yield problem(
                path, "choice", f"This must be {expected}", expected=expected, found=value
            )


def parameter_problems(
    declaration: Mapping[str, Any], given: Mapping[str, Any], path: Path, *, complete: bool = True
) -> Iterator[Problem]:
    """Yield what is wrong with values given for the parameters of a (sound) declaration.

    `complete` asks that every parameter without a default is given.
    """
    declared = declaration.get("parameters", {})
    for name, value in given.items():
        if name in declared:
            yield from value_problems(declared[name], value, (*path, name))
        else:
            known = listed(declared)
            message = f"The algorithm has no parameter {listed([name])}; it has {known}"
            yield problem((*path, name), "unknown", message, expected=known, found=name)
    if not complete:
        return
    for name, parameter in declared.items():
        if name not in given and "default" not in parameter:
            message = f"The parameter {listed([name])} has no default: give it a value"
            expected = f"a value of type {parameter['type']}"
            yield problem((*path, name), "missing", message, expected=expected)


def clean_parameters(
    declaration: Mapping[str, Any], given: Mapping[str, Any], path: Path = ()
) -> dict[str, Any]:
    """Return every declared parameter, in declared order, as given or else its default.

    Values are cast, so that `"5"`, `5.0` and an omitted default of 5 are the same. Raises
    BadDocument with every problem; pointers start at `path`.
    """
    problems = list(parameter_problems(declaration, given, path))
    if problems:
        raise BadDocument(problems)
    return {
        name: cast(given.get(name, declared.get("default")), declared["type"])
        for name, declared in declaration.get("parameters", {}).items()
    }
