"""Reading JSON as strictly as declarations need it, and what any document must keep to.

Refused: duplicate keys, NaN and Infinity, numbers too large, text that UTF-8 or PostgreSQL cannot
hold, too deep, too many values, too big.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from gristmill.formats.problems import BadDocument, Path, Problem, problem, told

LARGEST_TEXT = 64 * 1024 * 1024  #: bytes of a document that is read
DEEPEST = 40  #: levels of objects and lists
MOST_VALUES = 5_000_000  #: in one document; a toolchain of 100,000 blocks has 2 million
LONGEST_TEXT = 1_000_000  #: characters of one string
LARGEST_INTEGER = 2**64 - 1  #: uint64, the largest that a data format knows


class _Doubled(dict[str, Any]):
    """An object that has a key twice; kept until its place is known."""

    key: str = ""


def parse_json(text: str | bytes, *, largest: int = LARGEST_TEXT) -> Any:
    """Return the value that a JSON text holds.

    Raises BadDocument for text that is no JSON, and for what `check_document` finds.
    """
    if len(text) > largest:
        raise BadDocument(
            [
                problem(
                    (),
                    "too_big",
                    f"The document has {len(text)} bytes; at most {largest} are read",
                    expected=f"at most {largest} bytes",
                )
            ]
        )
    value = _loaded(text)
    problems = check_document(value)
    if problems:
        raise BadDocument(problems)
    return value


def _loaded(text: str | bytes) -> Any:
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        return json.loads(text, object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        message = f"The document is not UTF-8: byte {error.start} is wrong"
        raise BadDocument([problem((), "encoding", message, expected="UTF-8")]) from None
    except json.JSONDecodeError as error:
        message = (
            f"The document is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        )
        raise BadDocument([problem((), "syntax", message, expected="JSON")]) from None
    except RecursionError:
        raise BadDocument([_too_deep(())]) from None
    except ValueError:  # a number of more digits than Python reads
        raise BadDocument(
            [problem((), "number", "The document holds a number that is too long")]
        ) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) == len(pairs):
        return result
    seen: set[str] = set()
    doubled = _Doubled(result)
    doubled.key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    return doubled


def check_document(value: Any) -> list[Problem]:
    """Return what no document may hold, whatever it declares. Linear, without recursion."""
    return told(_broken(value))


def _broken(root: Any) -> Iterator[Problem]:
    waiting: list[tuple[Any, Path]] = [(root, ())]
    count = 0
    while waiting:
        value, path = waiting.pop()
        count += 1
        if count > MOST_VALUES:
            yield problem((), "too_big", f"The document holds more than {MOST_VALUES} values")
            return
        if not isinstance(value, dict | list):
            yield from _broken_scalar(value, path)
        elif len(path) >= DEEPEST:
            yield _too_deep(path)
        elif isinstance(value, list):
            waiting.extend((item, (*path, index)) for index, item in enumerate(value))
        else:
            yield from _broken_keys(value, path)
            waiting.extend((item, (*path, key)) for key, item in value.items())


def _too_deep(path: Path) -> Problem:
    message = f"The document is nested more than {DEEPEST} levels deep"
    return problem(path[:DEEPEST], "too_deep", message, expected=f"at most {DEEPEST} levels")


def _broken_keys(value: dict[Any, Any], path: Path) -> Iterator[Problem]:
    if isinstance(value, _Doubled):
        message = "A key stands twice in one object"
        yield problem(
            (*path, value.key), "duplicate", message, expected="each key once", found=value.key
        )
    for key in value:
        if not isinstance(key, str):
            yield problem(path, "type", "A key is not text", expected="text", found=key)
        else:
            yield from _broken_text(key, path)


def _broken_scalar(value: Any, path: Path) -> Iterator[Problem]:
    match value:
        case str():
            yield from _broken_text(value, path)
        case None | bool():
            pass
        case int():
            if abs(value) > LARGEST_INTEGER:
                message = "A whole number is too large"
                yield problem(path, "number", message, expected="at most 64 bits", found=value)
        case float():
            if not math.isfinite(value):
                message = "A number is not finite"
                yield problem(path, "number", message, expected="a finite number", found=str(value))
        case _:
            yield problem(
                path, "type", "This is no JSON value", expected="a JSON value", found=value
            )


def _broken_text(value: str, path: Path) -> Iterator[Problem]:
    if len(value) > LONGEST_TEXT:
        message = f"A text is longer than {LONGEST_TEXT} characters"
        yield problem(path, "too_big", message, found=value)
    elif "\0" in value:
        yield problem(path, "text", "A text holds the character NUL", found=value)
    elif not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        yield problem(path, "text", "A text holds half a surrogate pair", found=value)
