"""Shapes that a JSON value must have, as tables: the structural half of every check.

A shape yields what is wrong with a value; what the values mean to each other (cycles, types of
ports, …) is checked elsewhere, and only where the shape is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from gristmill.formats import names
from gristmill.formats.problems import Path, Problem, listed, problem


class Shape(Protocol):
    """What a value must look like."""

    def check(self, value: Any, path: Path) -> Iterator[Problem]:
        """Yield what is wrong with a value at a path."""
        ...


@dataclass(frozen=True, slots=True)
class Text:
    """Text, at most so long."""

    longest: int = 10_000
    what: str = "text"

    def check(self, value: Any, path: Path) -> Iterator[Problem]:
        if not isinstance(value, str):
            yield wrong_type(value, path, self.what)
        elif len(value) > self.longest:
            message = f"This has {len(value)} characters; at most {self.longest} are allowed"
            expected = f"at most {self.longest} characters"
            yield problem(path, "length", message, expected=expected, found=value)


@dataclass(frozen=True, slots=True)
class Name:
    """A name that follows a rule."""

    rule: names.NameRule = names.IDENTIFIER

    def check(self, value: Any, path: Path) -> Iterator[Problem]:
        if not isinstance(value, str):
            yield wrong_type(value, path, self.rule.what)
        elif not self.rule.fits(value):
            yield self.rule.problem(value, path)


@dataclass(frozen=True, slots=True)
class Reference:
    """`owner/name/version`, or `name/version`; `owners` limits the first part."""

    of: Callable[[object, Path], Problem | None] = names.ref_problem
    owners: tuple[str, ...] = ()

    def check(self, value: Any, path: Path) -> Iterator[Problem]:
        wrong = self.of(value, path)
        if wrong:
            yield wrong
        elif self.owners and value.split("/")[0] not in self.owners:
            expected = " or ".join(f"{owner}/name/version" for owner in self.owners)
            yield problem(path, "name", f"This must be {expected}", expected=expected, found=value)


@dataclass(frozen=True, slots=True)
class Boolean:
    """true or false."""

    def check(self, value: Any, path: Path) -> Iterator[Problem]:
        if not isinstance(value, bool):
            yield wrong_type(value, path, "true or false")


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number between two, both included."""

    least: int = -(2**31)
    most: int = 2**31 - 1

    def check(self, value: Any, path: Path) -> Iterator[Problem]:
        if isinstance(value, bool) or not isinstance(value, int):
            yield wrong_type(value, path, "a whole number")
        elif not self.least <= value <= self.most:
            expected = f"from {self.least} to {self.most}"
            message = f"This number is out of range: {expected}"
            yield problem(path, "value", message, expected=expected, found=value)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some texts or numbers."""

    values: tuple[str | int, ...]

    def check(self, value: Any, path: Path) -> Iterator[Problem]:
        if type(value) not in (str, int) or value not in self.values:
            expected = "one of " + ", ".join(str(choice) for choice in self.values)
            yield problem(path, "value", f"This must be {expected}", expected=expected, found=value)


@dataclass(frozen=True, slots=True)
class Scalar:
    """Text, a number, or true or false: BEAT's `value`."""

    def check(self, value: Any, path: Path) -> Iterator[Problem]:
        if not isinstance(value, str | int | float):
            yield wrong_type(value, path, "text, a number, or true or false")


@dataclass(frozen=True, slots=True)
class Matching:
    """Text that a function accepts, described in words."""

    accepts: Callable[[str], bool]
    expected: str

    def check(self, value: Any, path: Path) -> Iterator[Problem]:
        if not isinstance(value, str):
            yield wrong_type(value, path, "text")
        elif not self.accepts(value):
            message = f"This must be {self.expected}"
            yield problem(path, "value", message, expected=self.expected, found=value)


@dataclass(frozen=True, slots=True)
class Items:
    """A list; `unique` forbids equal texts in it."""

    of: Shape
    least: int = 0
    most: int = 1_000_000
    unique: bool = False

    def check(self, value: Any, path: Path) -> Iterator[Problem]:
        if not isinstance(value, list):
            yield wrong_type(value, path, "a list")
            return
        if not self.least <= len(value) <= self.most:
            expected = f"{self.least} to {self.most} entries"
            if len(value) < self.least:
                expected = f"at least {self.least} {'entry' if self.least == 1 else 'entries'}"
            yield problem(
                path, "length", f"This list needs {expected}", expected=expected, found=value
            )
        seen: set[str] = set()
        for index, item in enumerate(value):
            yield from self.of.check(item, (*path, index))
            if self.unique and isinstance(item, str):
                if item in seen:
                    message = f"{names.capital(listed([item]))} stands twice in this list"
                    yield problem((*path, index), "duplicate", message, found=item)
                seen.add(item)


@dataclass(frozen=True, slots=True)
class Table:
    """An object whose keys follow a rule and whose values have one shape."""

    of: Shape
    keys: names.NameRule | Shape = names.IDENTIFIER
    least: int = 0

    def check(self, value: Any, path: Path) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield wrong_type(value, path, "an object")
            return
        if len(value) < self.least:
            expected = f"at least {self.least} {'entry' if self.least == 1 else 'entries'}"
            yield problem(path, "length", f"This needs {expected}", expected=expected, found=value)
        for key, item in value.items():
            wrong = list(self._key_problems(key, (*path, key)))
            yield from wrong
            if not wrong:
                yield from self.of.check(item, (*path, key))

    def _key_problems(self, key: str, path: Path) -> Iterator[Problem]:
        if not isinstance(self.keys, names.NameRule):
            yield from self.keys.check(key, path)
        elif not self.keys.fits(key):
            yield self.keys.problem(key, path)


@dataclass(frozen=True, slots=True)
class Record:
    """An object with known keys and no others."""

    required: Mapping[str, Shape]
    optional: Mapping[str, Shape] = field(default_factory=dict)
    what: str = "an object"

    def check(self, value: Any, path: Path) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield wrong_type(value, path, self.what)
            return
        for key, shape in self.required.items():
            if key in value:
                yield from shape.check(value[key], (*path, key))
            else:
                yield missing(path, key, self.what)
        for key, item in value.items():
            if key in self.optional:
                yield from self.optional[key].check(item, (*path, key))
            elif key not in self.required:
                yield self._unexpected(key, path)

    def _unexpected(self, key: str, path: Path) -> Problem:
        known = listed([*self.required, *self.optional])
        message = f"{listed([key])} is not known here; known are {known}"
        return problem((*path, key), "unexpected", message, expected=known, found=key)


@dataclass(frozen=True, slots=True)
class Anything:
    """Any JSON value."""

    def check(self, value: Any, path: Path) -> Iterator[Problem]:
        return iter(())


def missing(path: Path, key: str, what: str = "an object") -> Problem:
    """Say that a key is missing; the pointer names its place."""
    return problem((*path, key), "missing", f'"{key}" is missing', expected=f"{what} with {key}")


def wrong_type(value: Any, path: Path, expected: str) -> Problem:
    """Say that a value is of another type."""
    message = f"This must be {expected}"
    return problem(path, "type", message, expected=expected, found=value)


# Parts that several declarations share.
DESCRIPTION = Text(100, "a description of at most 100 characters")
LANGUAGE = OneOf(("python", "cxx", "matlab", "r", "unknown"))
USES = Table(Reference(), names.PYTHON_NAME)
ENVIRONMENT = Record({"name": Text(100), "version": Text(50)}, what="an environment")
VALUES = Table(Scalar())
