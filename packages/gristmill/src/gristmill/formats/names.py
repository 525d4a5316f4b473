"""Names of things, and of what is inside them.

`owner/name/version` for what people own, `name/version` for databases and protocol templates (both
BEAT's forms), identifiers for ports, blocks and parameters. Names become parts of file paths and of
pages, so letters, digits, `_` and `-` are all they may hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from gristmill.formats.problems import BadDocument, Path, Problem, problem

LONGEST_NAME = 100  #: characters
LARGEST_VERSION = 2**31 - 1

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_LABEL = re.compile(r"[A-Za-z0-9_-]+")  # BEAT: names of datasets, sets, assets
_PROTOCOL = re.compile(r"[A-Za-z0-9_][.A-Za-z0-9_-]*")
_PYTHON_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWNER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_VERSION = re.compile(r"[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class NameRule:
    """What one kind of name may look like."""

    what: str  #: with its article
    pattern: re.Pattern[str]
    letters: str  #: the pattern in words

    def fits(self, text: object) -> bool:
        """Tell whether a value is such a name."""
        return (
            isinstance(text, str)
            and len(text) <= LONGEST_NAME
            and self.pattern.fullmatch(text) is not None
        )

    def problem(self, text: object, path: Path) -> Problem:
        """Say what is wrong with a value that is no such name."""
        if isinstance(text, str) and len(text) > LONGEST_NAME:
            message = f"{capital(self.what)} has at most {LONGEST_NAME} characters"
        else:
            message = f"This is not {self.what}: {self.letters}"
        return problem(path, "name", message, expected=self.letters, found=text)


def capital(text: str) -> str:
    """Return a text that begins a sentence."""
    return text[:1].upper() + text[1:]


_WORD = "letters, digits, _ and -"
IDENTIFIER = NameRule("a name", _IDENTIFIER, f"{_WORD}, beginning with a letter or _")
LABEL = NameRule("a name", _LABEL, _WORD)
PROTOCOL = NameRule(
    "a name of a protocol", _PROTOCOL, f"{_WORD} and dots, not beginning with . or -"
)
PYTHON_NAME = NameRule(
    "a name that Python can use",
    _PYTHON_NAME,
    "letters, digits and _, beginning with a letter or _",
)
OWNER = NameRule("a username", _OWNER, f"{_WORD}, beginning with a letter or _")
VERSION = NameRule("a version", _VERSION, "a whole number from 1, without leading zeros")


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """A version of something that a person owns: `owner/name/version`."""

    owner: str
    name: str
    version: int

    @classmethod
    def parse(cls, text: object) -> Self:
        """Return the reference that a text holds; raises BadDocument with one problem."""
        wrong = ref_problem(text, ())
        if wrong:
            raise BadDocument([wrong])
        owner, name, version = str(text).split("/")
        return cls(owner, name, int(version))

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}/{self.version}"


@dataclass(frozen=True, slots=True, order=True)
class DatabaseRef:
    """A version of a database or of a protocol template: `name/version`."""

    name: str
    version: int

    @classmethod
    def parse(cls, text: object) -> Self:
        """Return the reference that a text holds; raises BadDocument with one problem."""
        wrong = database_ref_problem(text, ())
        if wrong:
            raise BadDocument([wrong])
        name, version = str(text).split("/")
        return cls(name, int(version))

    def __str__(self) -> str:
        return f"{self.name}/{self.version}"


def ref_problem(text: object, path: Path) -> Problem | None:
    """Return what is wrong with an `owner/name/version`, or None."""
    return _parts_problem(text, path, "owner/name/version", (OWNER, LABEL, VERSION))


def database_ref_problem(text: object, path: Path) -> Problem | None:
    """Return what is wrong with a `name/version`, or None."""
    return _parts_problem(text, path, "name/version", (LABEL, VERSION))


def _parts_problem(
    text: object, path: Path, form: str, rules: tuple[NameRule, ...]
) -> Problem | None:
    if not isinstance(text, str):
        return problem(
            path, "type", f"A reference is text of the form {form}", expected=form, found=text
        )
    if len(text) > len(rules) * (LONGEST_NAME + 1):
        message = f"This is too long for a reference of the form {form}"
        return problem(path, "name", message, expected=form, found=text)
    parts = text.split("/")
    if len(parts) != len(rules):
        message = f"This is not a reference of the form {form}"
        return problem(path, "name", message, expected=form, found=text)
    for part, rule in zip(parts, rules, strict=True):
        if not rule.fits(part):
            message = f"This is not a reference of the form {form}: {rule.what} is {rule.letters}"
            return problem(path, "name", message, expected=form, found=text)
    if int(parts[-1]) > LARGEST_VERSION:
        return problem(path, "name", "The version is too large", expected=form, found=text)
    return None


def name_problems(name: object) -> list[Problem]:
    """Check the name of a thing that a person is about to create."""
    return [] if LABEL.fits(name) else [LABEL.problem(name, ("name",))]
