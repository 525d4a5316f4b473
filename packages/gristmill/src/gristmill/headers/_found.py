"""What readers of headers share: the attributes found, options as words, shapes of nodes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gristmill import quantities
from gristmill.errors import BadValue

Value = Callable[["Found", str], None]


class Found:
    """Attributes of a job, and what was not understood: (line, option, why)."""

    def __init__(self, manager: str) -> None:
        self.manager = manager
        self.attributes: dict[str, Any] = {}
        self.missed: list[tuple[int, str, str]] = []
        self.raw: dict[str, Any] = {}  #: what only all lines together can explain

    def set(self, name: str, value: Any) -> None:
        """As managers do, the last of two lines for one thing counts."""
        self.attributes[name] = value

    def miss(self, number: int, option: str, why: str = "no attribute stands for it") -> None:
        self.missed.append((number, option, why))


def attribute(name: str, read: Callable[[str], Any] = str) -> Value:
    """An option whose value is an attribute's."""
    return lambda found, text: found.set(name, read(text))


def flag(name: str, value: Any = True) -> Value:
    """An option without a value."""
    return lambda found, _: found.set(name, value)


def raw(name: str, read: Callable[[str], Any] = str) -> Value:
    """An option that is explained when all are read."""
    return lambda found, text: found.raw.__setitem__(name, read(text))


def nothing(found: Found, text: str) -> None:
    """An option that says what the library does anyway."""


def whole(text: str) -> int:
    return int(text)


def apply(
    found: Found, number: int, option: str, value: str, table: Mapping[str, Value], shown: str
) -> None:
    """Let the table's entry read an option; whatever goes wrong is a line not understood."""
    if option not in table:
        found.miss(number, shown)
        return
    try:
        table[option](found, value)
    except BadValue as error:
        found.miss(number, shown, str(error))
    except (ValueError, KeyError, IndexError):
        found.miss(number, shown, f"{value!r} cannot be read")


def words(found: Found, number: int, line: str) -> list[str]:
    """A line as a shell splits it; a comment at its end is left out."""
    try:
        return shlex.split(line, comments=True)
    except ValueError as error:
        found.miss(number, line, str(error))
        return []


def options(
    line: Sequence[str], flags: Iterable[str], *, glued: bool = False
) -> Iterator[tuple[str, str, str]]:
    """(option, value, as it was written). `flags` take no value.

    `--name=value` and `--name value`; with `glued` also `-Nname`, the value at the letter.
    """
    rest, bare = list(line), frozenset(flags)
    while rest:
        word = rest.pop(0)
        name, sign, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if glued and not word.startswith("--") and len(word) > 2 and word[:2] not in bare:
            name, sign, value = word[:2], "=", word[2:]
        if sign:
            yield name, value, word
        elif name in bare or not rest or not name.startswith("-"):
            yield name, "", word
        else:
            value = rest.pop(0)
            yield name, value, f"{word} {quoted(value)}"


def quoted(value: str) -> str:
    """As an option's text can be given on, in one pair of quotes where it needs them."""
    plain = all(char.isalnum() or char in "_./+=@^:,%*[]()-" for char in value)
    return value if plain and value else f'"{value}"'


def placeholders(names: Mapping[str, str]) -> Callable[[str], str]:
    """Reads a path with another manager's placeholders; raises ValueError on one we lack."""

    def translate(text: str) -> str:
        for theirs, ours in sorted(names.items(), key=lambda item: -len(item[0])):
            text = text.replace(theirs, f"\0{ours}")
        if "$" in text or "%" in text.replace("%%", ""):
            raise BadValue(f"{text!r} has a placeholder that not every manager has")
        return text.replace("\0", "%")

    return translate


def output(found: Found, stream: str, text: str) -> None:
    """A path of stdout or stderr. /dev/null is written by our own scripts, which redirect."""
    if text != "/dev/null":
        found.set(stream, text)


def moment(text: str) -> int:
    """PBS's `[[CC]YY]MMDDhhmm[.SS]` with the year, in UTC as we write it."""
    form = "%Y%m%d%H%M.%S" if "." in text else "%Y%m%d%H%M"
    return int(datetime.strptime(f"{text} +0000", f"{form} %z").timestamp())


def clock(text: str) -> int:
    """Seconds of `[[DD:]HH:]MM:SS`, or a bare number of seconds."""
    parts = [int(part) for part in text.split(":")]
    if not 1 <= len(parts) <= 4 or min(parts) < 0:
        raise BadValue(f"{text!r} is not a time")
    weights = (1, 60, 3600, quantities.DAY)
    return sum(part * weight for part, weight in zip(reversed(parts), weights, strict=False))


def mail(letters: Mapping[str, str]) -> Value:
    """`abe`: the events of the letters; `n` is none."""

    def read(found: Found, text: str) -> None:
        events = [letters[letter] for letter in text if letter != "n"]
        if events:
            found.set("mail_on", events)

    return read


def feature(found: Found, name: str) -> None:
    found.set("features", [*found.attributes.get("features", ()), name])


def licence(found: Found, name: str, count: str) -> None:
    found.set("licences", {**found.attributes.get("licences", {}), name: int(count or 1)})


def utc(text: str, form: str) -> int:
    return int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp())
