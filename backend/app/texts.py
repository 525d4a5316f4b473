"""Types of text that several nouns share; each says what it may hold."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from gristmill.formats import names

LONGEST_DOCUMENT = 100_000  #: characters of Markdown


def _identifier(rule: names.NameRule, longest: int) -> AfterValidator:
    def check(text: str) -> str:
        if not rule.fits(text) or len(text) > longest:
            raise ValueError(f"{rule.what} is {rule.letters}, at most {longest} characters")
        return text

    return AfterValidator(check)


def _no_way_up(text: str) -> str:
    if ".." in text:
        raise ValueError("a name holds no '..'")
    return text


#: Part of references and paths.
Username = Annotated[str, Field(max_length=64), _identifier(names.OWNER, 64)]
#: Of groups and workers: letters, digits, dot, underscore, dash.
PlainName = Annotated[
    str,
    StringConstraints(max_length=64, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"),
    AfterValidator(_no_way_up),
]
#: Of queues and environments, for people: "3 hours/4G on Python (GPU)".
DisplayName = Annotated[
    str,
    StringConstraints(
        max_length=100, pattern=r"^[A-Za-z0-9]([A-Za-z0-9 _./()+:-]*[A-Za-z0-9)+])?$"
    ),
    AfterValidator(_no_way_up),
]
VersionName = Annotated[
    str, StringConstraints(max_length=50, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$")
]
Line = Annotated[str, Field(max_length=200)]
Markdown = Annotated[str, Field(max_length=LONGEST_DOCUMENT)]
Email = Annotated[str, StringConstraints(max_length=254, pattern=r"^([^@\s<>]+@[^@\s<>]+)?$")]
