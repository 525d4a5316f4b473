"""What is wrong with a document: where (JSON pointer), what was found, what was expected.

Every check of this package returns problems or yields them; none raises on what a person wrote.
A pointer (RFC 6901) resolves in the document, or its last token names the place where something is
missing. Texts are bounded, so that a document cannot make an answer larger than itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from gristmill.errors import GristmillError

Path = tuple[str | int, ...]  #: keys and indices that lead from the root to a place

MOST_PROBLEMS = 100  #: of one document that are told; more help nobody
LONGEST_SHOWN = 80  #: characters of a value inside a message
LONGEST_TOKEN = 200  #: characters of a key that a pointer still holds


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a document."""

    pointer: str  #: RFC 6901; "" is the whole document
    message: str  #: one sentence for a person
    code: str  #: for a program: "missing", "type", "cycle", …
    expected: str | None = None
    found: str | None = None


class BadDocument(GristmillError, ValueError):
    """A document that has problems; they are in `problems`."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        where = f" at {first.pointer}" if first.pointer else ""
        super().__init__(f"{first.message}{where}{more}")


def pointer(path: Path) -> str:
    """Return a path as a JSON pointer.

    It stops above a key that is too long or no valid text: that key is then shown in `found`.
    """
    tokens: list[str] = []
    for token in path:
        text = str(token)
        if len(text) > LONGEST_TOKEN or not is_text(text):
            break
        tokens.append("/" + text.replace("~", "~0").replace("/", "~1"))
    return "".join(tokens)


def is_text(value: str) -> bool:
    """Tell whether UTF-8 and PostgreSQL can hold it: no lone surrogate, no NUL."""
    if "\0" in value:
        return False
    return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)


def shown(value: Any) -> str:
    """Return a value as a message may hold it: JSON, short, one line, valid text."""
    match value:
        case dict():
            return f"an object of {len(value)} {'entry' if len(value) == 1 else 'entries'}"
        case list() | tuple():
            return f"a list of {len(value)} {'entry' if len(value) == 1 else 'entries'}"
        case str():
            return _short(value)
        case int() if not isinstance(value, bool) and value.bit_length() > 256:
            return f"a whole number of {value.bit_length()} bits"
        case None | bool() | int() | float():
            return json.dumps(value)
        case _:
            return type(value).__name__


def _short(text: str) -> str:
    kept = text[:LONGEST_SHOWN].encode("utf-8", "replace").decode()
    kept = "".join(letter if letter.isprintable() else "�" for letter in kept)
    quoted = json.dumps(kept, ensure_ascii=False)
    return f"{quoted}… ({len(text)} characters)" if len(text) > LONGEST_SHOWN else quoted


def listed(names: Iterable[str], most: int = 20) -> str:
    """Return names as a sentence lists them: `"a", "b" and 7 more`, or `none`."""
    all_names = list(names)
    text = ", ".join(_short(name) for name in all_names[:most])
    if len(all_names) > most:
        return f"{text} and {len(all_names) - most} more"
    return text or "none"


def problem(
    path: Path, code: str, message: str, *, expected: str | None = None, found: Any = ...
) -> Problem:
    """Make a problem at a path; `found` is the value itself."""
    return Problem(pointer(path), message, code, expected, None if found is ... else shown(found))


def told(problems: Iterable[Problem]) -> list[Problem]:
    """Return the first problems, as many as are worth telling."""
    return list(islice(problems, MOST_PROBLEMS))
