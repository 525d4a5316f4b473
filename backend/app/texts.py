"""Types of text that several nouns share; each says in words what it may hold."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from gristmill.formats import names

LONGEST_DOCUMENT = 100_000  #: characters of Markdown


def _text(pattern: str, words: str, longest: int) -> Any:
    """Return a type of text of at most `longest` characters that fits the pattern throughout."""
    whole = re.compile(pattern)

    def check(text: str) -> str:
        if not whole.fullmatch(text) or ".." in text:
            raise ValueError(f"this holds {words}, at most {longest} characters, and no '..'")
        return text

    return Annotated[str, Field(max_length=longest, description=words), AfterValidator(check)]


def _username(text: str) -> str:
    if not names.OWNER.fits(text):
        raise ValueError(f"{names.OWNER.what} is {names.OWNER.letters}")
    return text


#: Part of references and paths.
Username = Annotated[str, Field(max_length=64), AfterValidator(_username)]
#: Of groups and workers.
PlainName = _text(
    r"[A-Za-z0-9_][A-Za-z0-9_.-]*", "letters, digits, _, and behind the first also . and -", 64
)
#: Of queues and environments, for people: "3 hours/4G on Python (GPU)".
DisplayName = _text(
    r"[A-Za-z0-9](?:[A-Za-z0-9 _./()+:-]*[A-Za-z0-9)+])?",
    "letters, digits and, between them, blanks and _ . / ( ) + : -",
    100,
)
VersionName = _text(
    r"[A-Za-z0-9][A-Za-z0-9_.+-]*", "letters, digits, and behind the first also _ . + -", 50
)
Email = _text(r"(?:[^@\s<>]+@[^@\s<>]+)?", "nothing, or an address with one @", 254)
Line = Annotated[str, Field(max_length=200)]
Markdown = Annotated[str, Field(max_length=LONGEST_DOCUMENT)]
