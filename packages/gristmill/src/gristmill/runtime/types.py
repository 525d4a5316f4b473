"""Data formats as a tree of types, resolved from BEAT's JSON form. No data, no Arrow.

Facts: base types, `#extends`, references and arrays of at most 5 dimensions (0 = any length) are
those of BEAT's data format schema 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gristmill.runtime.errors import JobError

NUMBERS = frozenset(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)) | {
    "float32",
    "float64",
    "complex64",
    "complex128",
}
BASE = NUMBERS | {"bool", "string"}
MAX_DIMENSIONS = 5


@dataclass(frozen=True, slots=True)
class Scalar:
    """A base type: a number, `bool` or `string`."""

    name: str

    @property
    def is_complex(self) -> bool:
        """Whether a value has a real and an imaginary part."""
        return self.name.startswith("complex")


@dataclass(frozen=True, slots=True)
class Record:
    """An object: named fields, in order."""

    fields: tuple[tuple[str, Type], ...]


@dataclass(frozen=True, slots=True)
class Array:
    """An array of n dimensions; 0 in `shape` stands for any length."""

    shape: tuple[int, ...]
    element: Type


Type = Scalar | Record | Array


def resolve(reference: str, formats: Mapping[str, Any]) -> Record:
    """Return the type that `reference` names among `formats`.

    Raises JobError where a name is unknown, defined in terms of itself, or malformed.
    """
    return _named(reference, formats, ())


def _named(reference: str, formats: Mapping[str, Any], above: tuple[str, ...]) -> Record:
    if reference in above:
        raise JobError(f"data format {reference!r} is defined in terms of itself")
    if reference not in formats:
        raise JobError(f"job.json has no data format {reference!r} in `formats`")
    return _record(formats[reference], formats, (*above, reference))


def _record(declaration: Any, formats: Mapping[str, Any], above: tuple[str, ...]) -> Record:
    if not isinstance(declaration, dict):
        raise JobError(f"data format {above[-1]!r} is not an object")
    fields: dict[str, Type] = {}
    if "#extends" in declaration:
        fields.update(_named(declaration["#extends"], formats, above).fields)
    for name, declared in declaration.items():
        if name.startswith("#"):
            continue
        if name in fields:
            raise JobError(f"data format {above[-1]!r} repeats the field {name!r} it inherits")
        fields[name] = _type(declared, formats, above)
    return Record(tuple(fields.items()))


def _type(declared: Any, formats: Mapping[str, Any], above: tuple[str, ...]) -> Type:
    if isinstance(declared, dict):
        return _record(declared, formats, above)
    if isinstance(declared, list):
        return _array(declared, formats, above)
    if declared in BASE:
        return Scalar(declared)
    return _named(str(declared), formats, above)


def _array(declared: list[Any], formats: Mapping[str, Any], above: tuple[str, ...]) -> Array:
    *shape, element = declared or [None]
    if not 1 <= len(shape) <= MAX_DIMENSIONS or not all(
        isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape
    ):
        raise JobError(f"data format {above[-1]!r} has an array of shape {shape!r}")
    return Array(tuple(shape), _type(element, formats, above))
