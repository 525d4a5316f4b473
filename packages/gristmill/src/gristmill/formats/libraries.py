"""Libraries: declarations, and the closure of what an algorithm uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gristmill.formats.documents import check_document
from gristmill.formats.names import Ref
from gristmill.formats.problems import BadDocument, Path, Problem, problem, told
from gristmill.formats.shapes import (
    DESCRIPTION,
    ENVIRONMENT,
    LANGUAGE,
    USES,
    Integer,
    Items,
    Record,
)

Libraries = Mapping[str, Mapping[str, Any]]  #: "owner/name/version" -> declaration

_LIBRARY = Record(
    {"language": LANGUAGE},
    {
        "uses": USES,
        "description": DESCRIPTION,
        "schema_version": Integer(1, 1),
        # ours: the environments it works in; absent is all of them
        "environments": Items(ENVIRONMENT, least=1),
    },
    what="a library",
)


def check_library(
    declaration: Any, known: Libraries | None = None, ref: str | None = None
) -> list[Problem]:
    """Return what is wrong with a library.

    `known` holds the libraries it may use; when given, its closure is checked too. `ref` is the
    library's own name: one that uses itself, or something that does, is then told.
    """
    wrong = check_document(declaration) or told(_LIBRARY.check(declaration, ()))
    if wrong or known is None:
        return wrong
    everything = {**known, ref: declaration} if ref else known
    own = (ref,) if ref else ()
    return check_uses(declaration, everything, above=own)


def check_uses(
    declaration: Mapping[str, Any], known: Libraries, path: Path = (), above: tuple[str, ...] = ()
) -> list[Problem]:
    """Return what is wrong with what a (sound) algorithm or library uses, to the last library.

    Unknown libraries, cycles, two versions of one library, another language. Each pointer names
    the entry of `uses` that leads there.
    """
    return told(_uses_problems(declaration, known, path, above))


def _uses_problems(
    declaration: Mapping[str, Any], known: Libraries, path: Path, above: tuple[str, ...]
) -> Iterator[Problem]:
    language = declaration.get("language", "python")
    versions: dict[tuple[str, str], str] = {}
    for name in above:
        versions.setdefault(_unversioned(name), name)
    told_of: set[str] = set()
    for alias, ref in declaration.get("uses", {}).items():
        place = (*path, "uses", alias)
        for step in _walk(ref, known, above):
            if isinstance(step, _Wrong):
                if step.message not in told_of:
                    yield problem(place, step.code, step.message, found=step.ref)
                told_of.add(step.message)
                continue
            yield from _language(step, known, language, place, told_of)
            yield from _two_versions(step, versions, place, told_of)


def _language(
    ref: str, known: Libraries, language: str, place: Path, told_of: set[str]
) -> Iterator[Problem]:
    other = known[ref].get("language")
    message = f"The library {ref} is written in {other}, not in {language}"
    if other != language and message not in told_of:
        told_of.add(message)
        yield problem(place, "language", message, expected=language, found=other)


def _two_versions(
    ref: str, versions: dict[tuple[str, str], str], place: Path, told_of: set[str]
) -> Iterator[Problem]:
    first = versions.setdefault(_unversioned(ref), ref)
    message = f"Two versions of one library are used together: {first} and {ref}"
    if first != ref and message not in told_of:
        told_of.add(message)
        yield problem(place, "versions", message, expected=first, found=ref)


def _unversioned(ref: str) -> tuple[str, str]:
    parsed = Ref.parse(ref)
    return parsed.owner, parsed.name


class _Wrong:
    """A place where the walk through libraries cannot go on."""

    def __init__(self, code: str, ref: str, message: str) -> None:
        self.code, self.ref, self.message = code, ref, message


def _walk(root: str, known: Libraries, above: tuple[str, ...]) -> Iterator[str | _Wrong]:
    """Yield every library below a root once, after those it uses. No recursion."""
    on_path: dict[str, None] = dict.fromkeys(above)
    done: set[str] = set()
    stack: list[tuple[str, Iterator[str] | None]] = [(root, None)]
    while stack:
        ref, rest = stack.pop()
        if rest is None:
            if ref in done:
                continue
            if ref in on_path:
                chain = list(on_path)
                cycle = " → ".join([*chain[chain.index(ref) :], ref])
                yield _Wrong("cycle", ref, f"A library uses itself: {cycle}")
                continue
            if ref not in known:
                yield _Wrong("unknown", ref, f"There is no library {ref}")
                continue
            on_path[ref] = None
            rest = iter(known[ref].get("uses", {}).values())
        following = next(rest, None)
        if following is None:
            del on_path[ref]
            done.add(ref)
            yield ref
        else:
            stack.append((ref, rest))
            stack.append((following, None))


def library_closure(uses: Iterable[str], known: Libraries) -> list[str]:
    """Return every library that some libraries need, themselves included, each after its own.

    Raises BadDocument for an unknown library or a cycle.
    """
    closure: dict[str, None] = {}
    for ref in uses:
        for step in _walk(ref, known, ()):
            if isinstance(step, _Wrong):
                raise BadDocument([problem((), step.code, step.message, found=step.ref)])
            closure[step] = None
    return list(closure)
