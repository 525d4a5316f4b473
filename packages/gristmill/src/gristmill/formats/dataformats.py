"""Data formats: declarations, references between them, `#extends`, and what fits what.

A field's type is a base type, a reference to another format, a nested object, or an array
`[d1, …, dn, type]` of at most five dimensions, where 0 is any length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gristmill.formats import names
from gristmill.formats.documents import check_document
from gristmill.formats.problems import BadDocument, Path, Problem, listed, problem, told
from gristmill.formats.shapes import DESCRIPTION, Integer, Reference, Shape, wrong_type
from gristmill.formats.values import BASE_TYPES

Formats = Mapping[str, Mapping[str, Any]]  #: "owner/name/version" -> declaration

MOST_DIMENSIONS = 5
MOST_FIELDS = 10_000  #: of one format, with everything that it refers to
DEEPEST = 30  #: levels of nested objects, arrays and references

_SPECIAL: dict[str, Shape] = {
    "#extends": Reference(),
    "#description": DESCRIPTION,
    "#schema_version": Integer(1, 1),
}
_EXPECTED = 'a base type, owner/name/version, an object, or a list such as [0, 0, "float64"]'


def check_dataformat(declaration: Any, known: Formats | None = None) -> list[Problem]:
    """Return what is wrong with a data format.

    `known` holds the formats it may refer to; when given, unknown references, recursion and
    fields that clash with those of an extended format are told too. A format that is not yet
    stored cannot be referred to, so recursion means that `known` itself holds one.
    """
    return told(_problems(declaration, known))


def _problems(declaration: Any, known: Formats | None) -> Iterator[Problem]:
    wrong = check_document(declaration) or list(_shape(declaration, ()))
    yield from wrong
    if not wrong and known is not None:
        yield from _reference_problems(declaration, known)


def _shape(value: Any, path: Path) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield wrong_type(value, path, "an object")
        return
    fields = [key for key in value if key not in _SPECIAL]
    if not fields and "#extends" not in value:
        message = "A data format has at least one field"
        yield problem(path, "length", message, expected="at least one field", found=value)
    for key, item in value.items():
        if key in _SPECIAL:
            yield from _SPECIAL[key].check(item, (*path, key))
        elif not names.IDENTIFIER.fits(key):
            yield names.IDENTIFIER.problem(key, (*path, key))
        else:
            yield from _type_shape(item, (*path, key))


def _type_shape(value: Any, path: Path) -> Iterator[Problem]:
    match value:
        case list():
            yield from _array_shape(value, path)
        case dict():
            yield from _shape(value, path)
        case str() if value not in BASE_TYPES and names.ref_problem(value, path):
            message = f"This is no type: a type is {_EXPECTED}"
            yield problem(path, "value", message, expected=_EXPECTED, found=value)
        case str():
            pass
        case _:
            yield wrong_type(value, path, _EXPECTED)


def _array_shape(value: list[Any], path: Path) -> Iterator[Problem]:
    if not 2 <= len(value) <= MOST_DIMENSIONS + 1:
        expected = f"1 to {MOST_DIMENSIONS} dimensions and a type"
        yield problem(path, "length", f"An array has {expected}", expected=expected, found=value)
        return
    for index, dimension in enumerate(value[:-1]):
        yield from Integer(0, 2**31 - 1).check(dimension, (*path, index))
    if isinstance(value[-1], list):
        message = "An array holds no array: add its dimensions instead"
        expected = "a base type, owner/name/version or an object"
        yield problem((*path, len(value) - 1), "type", message, expected=expected, found=value[-1])
    else:
        yield from _type_shape(value[-1], (*path, len(value) - 1))


def references(declaration: Mapping[str, Any]) -> dict[str, Path]:
    """Return the formats that a (sound) declaration names, each with the first place of it."""
    found: dict[str, Path] = {}
    waiting: list[tuple[Any, Path]] = [(declaration, ())]
    while waiting:
        value, path = waiting.pop()
        match value:
            case Mapping():
                waiting.extend(
                    (item, (*path, key))
                    for key, item in reversed(list(value.items()))
                    if key not in ("#description", "#schema_version")
                )
            case list():
                waiting.append((value[-1], (*path, len(value) - 1)))
            case str() if value not in BASE_TYPES:
                found.setdefault(value, path)
    return found


def _reference_problems(declaration: Mapping[str, Any], known: Formats) -> Iterator[Problem]:
    unknown = [(ref, path) for ref, path in references(declaration).items() if ref not in known]
    for ref, path in unknown:
        yield problem(path, "unknown", f"There is no data format {ref}", found=ref)
    if unknown:
        return
    try:
        _Resolver(known).fields(declaration, _Place())
    except BadDocument as error:
        yield from error.problems


def resolve(ref: str, known: Formats) -> dict[str, Any]:
    """Return a format with everything it extends and refers to put in: base types alone remain.

    Raises BadDocument for an unknown or recursive reference, and for a clash of fields.
    """
    return dict(_Resolver(known).named(ref, _Place()).type)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the expansion stands."""

    path: Path = ()
    above: tuple[str, ...] = ()  #: references that led here; the path then stays at the first
    depth: int = 0

    def below(self, *keys: str | int) -> _Place:
        path = self.path if self.above else (*self.path, *keys)
        return _Place(path, self.above, self.depth + 1)

    def inside(self, ref: str) -> _Place:
        return _Place(self.path, (*self.above, ref), self.depth)


@dataclass(frozen=True, slots=True)
class _Expanded:
    """A type without references, and how large it is."""

    type: Any
    size: int = 1
    height: int = 0


class _Resolver:
    """Expands formats; each reference once, so that shared ones cost nothing more."""

    def __init__(self, known: Formats) -> None:
        self._known = known
        self._done: dict[str, _Expanded] = {}

    def named(self, ref: str, place: _Place) -> _Expanded:
        if ref in place.above:
            cycle = " → ".join((*place.above[place.above.index(ref) :], ref))
            message = f"A data format holds itself: {cycle}"
            raise BadDocument([problem(place.path, "recursion", message)])
        if ref not in self._known:
            message = f"There is no data format {ref}"
            raise BadDocument([problem(place.path, "unknown", message, found=ref)])
        if ref not in self._done:
            self._done[ref] = self.fields(self._known[ref], place.inside(ref))
        return self._done[ref]

    def fields(self, value: Mapping[str, Any], place: _Place) -> _Expanded:
        """Expand an object."""
        _bounded(place, 0, place.depth)
        parent = value.get("#extends")
        inherited = (
            self.named(parent, place.below("#extends"))
            if isinstance(parent, str)
            else _Expanded({})
        )
        result: dict[str, Any] = dict(inherited.type)
        size, height = inherited.size, inherited.height
        for key, item in value.items():
            if key in _SPECIAL:
                continue
            if key in result:
                message = f"The field {listed([key])} is already one of the extended {parent}"
                raise BadDocument([problem(place.below(key).path, "clash", message, found=key)])
            field = self._type(item, place.below(key))
            result[key] = field.type
            size, height = size + field.size, max(height, field.height + 1)
            _bounded(place, size, height)
        return _Expanded(result, size, height)

    def _type(self, item: Any, place: _Place) -> _Expanded:
        match item:
            case list():
                inner = self._type(item[-1], place.below(len(item) - 1))
                return _Expanded([*item[:-1], inner.type], inner.size, inner.height + 1)
            case Mapping():
                return self.fields(item, place)
            case str() if item in BASE_TYPES:
                return _Expanded(item)
            case _:
                return self.named(item, place)


def _bounded(place: _Place, size: int, height: int) -> None:
    if size > MOST_FIELDS:
        message = f"The data format has more than {MOST_FIELDS} fields in all"
        raise BadDocument([problem(place.path, "too_big", message)])
    if height > DEEPEST:
        message = f"The data format is nested more than {DEEPEST} levels deep, references included"
        raise BadDocument([problem(place.path, "too_deep", message)])


def is_parent(ancestor: str, ref: str, known: Formats) -> bool:
    """Tell whether a format is extended by another, directly or not."""
    seen = {ref}
    current: Any = known.get(ref, {}).get("#extends")
    while isinstance(current, str) and current not in seen:
        if current == ancestor:
            return True
        seen.add(current)
        current = known.get(current, {}).get("#extends")
    return False


def fits(produced: str, wanted: str, known: Formats) -> bool:
    """Tell whether an input of format `wanted` may read an output of format `produced`."""
    return produced == wanted or is_parent(wanted, produced, known)
