"""Is a declaration sound, with what it names: gristmill.formats asked, its sources gathered."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from backend.app import problems
from backend.app.auth.actors import Actor
from backend.app.declarations import queries
from backend.app.declarations.kinds import ALGORITHM, DATA_FORMAT, DATABASE, LIBRARY, Kind
from backend.app.problems import Place
from backend.app.routing import not_valid
from gristmill.formats import (
    BadDocument,
    Problem,
    check_algorithm,
    check_database,
    check_dataformat,
    check_library,
    check_toolchain,
    check_uses,
    name_problems,
)
from gristmill.formats.algorithms import named_formats
from gristmill.formats.databases import named_formats as formats_of_database
from gristmill.formats.dataformats import references
from gristmill.formats.problems import pointer, shown

_SEGMENT = r"[A-Za-z0-9_](?:[A-Za-z0-9_. -]*[A-Za-z0-9_-])?"
_PATH = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*")
_PYTHON_FILE = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]*/)*[A-Za-z_][A-Za-z0-9_]*\.py")
LONGEST_PATH = 500
LONGEST_NAME = 200  #: of a file or folder in a path; file systems take 255 bytes at most
DEEPEST_PATH = 20


async def check(
    session: AsyncSession, kind: Kind, actor: Actor, ref: str, declaration: Mapping[str, Any]
) -> None:
    """Raise Invalid, with pointers into the body, when the declaration is not sound."""
    found = await asyncio.to_thread(_form, kind, declaration)
    if not found:
        found = await _names(session, kind, actor, ref, declaration)
    if found:
        raise not_valid(BadDocument(found), prefix="/declaration")


def check_name(name: str) -> None:
    """Raise Invalid when a thing cannot have this name."""
    if found := name_problems(name):
        raise not_valid(BadDocument(found))


def _form(kind: Kind, declaration: Mapping[str, Any]) -> list[Problem]:
    forms = {
        "library": check_library,
        "algorithm": check_algorithm,
        "dataformat": check_dataformat,
        "toolchain": check_toolchain,
        "database": check_database,
    }
    return forms[kind.name](declaration)


async def _names(
    session: AsyncSession, kind: Kind, actor: Actor, ref: str, declaration: Mapping[str, Any]
) -> list[Problem]:
    """Return what is wrong with what a sound declaration names."""
    if kind is LIBRARY:
        known = await _libraries(session, actor, declaration)
        return check_library(declaration, known, ref)
    if kind is ALGORITHM:
        known = await _libraries(session, actor, declaration)
        formats = named_formats(declaration)
        return check_uses(declaration, known) + await _unknown(session, actor, formats)
    if kind is DATABASE:
        return await _unknown(session, actor, formats_of_database(declaration))
    if kind is DATA_FORMAT:
        return check_dataformat(declaration, await _formats(session, actor, declaration))
    return []


def _used(declaration: Mapping[str, Any]) -> Iterable[str]:
    return list(declaration.get("uses", {}).values())


async def _libraries(
    session: AsyncSession, actor: Actor, declaration: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    return await queries.reached(session, LIBRARY, _used(declaration), _used, actor)


async def _formats(
    session: AsyncSession, actor: Actor, declaration: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    return await queries.reached(session, DATA_FORMAT, references(declaration), references, actor)


async def _unknown(
    session: AsyncSession, actor: Actor, named: Mapping[str, tuple[str | int, ...]]
) -> list[Problem]:
    known = await queries.reached(session, DATA_FORMAT, named, lambda _: (), actor)
    return [
        Problem(
            pointer(path),
            f"There is no data format {ref}, or you may not see it",
            "unknown",
            "a data format that you may see",
            shown(ref),
        )
        for ref, path in named.items()
        if ref not in known
    ]


# ---- what comes with a declaration --------------------------------------------------------


def check_content(kind: Kind, *, source: str | None, files: Mapping[str, str] | None) -> None:
    """Raise Invalid when the kind has other content than this."""
    given = {"source": source, "files": files}
    for name, value in given.items():
        if name == kind.content and not value:
            raise problems.invalid(f"/{name}", f"a {kind.words} has {_what(name)}", "missing")
        if name != kind.content and value is not None:
            raise problems.invalid(f"/{name}", f"a {kind.words} has no {name}", "unexpected")
    for path in files or {}:
        _check_library_file(path)


def _what(name: str) -> str:
    return "a source" if name == "source" else "files"


def _is_short(path: str) -> bool:
    names = path[: LONGEST_PATH + 1].split("/")
    return (
        len(path) <= LONGEST_PATH
        and len(names) <= DEEPEST_PATH
        and all(len(name) <= LONGEST_NAME for name in names)
    )


def _check_library_file(path: str) -> None:
    if not (_is_short(path) and _PYTHON_FILE.fullmatch(path)):
        place = Place(
            pointer="/files",
            message="a library's files are modules that Python can import: folder/name.py, "
            f"names of at most {LONGEST_NAME} characters",
            code="path",
            found=shown(path),
        )
        raise problems.Invalid(f"/files: {place.message}", errors=[place])


def check_file_path(path: str) -> None:
    """Raise Invalid unless a path can be one of a database's files."""
    if not (_is_short(path) and _PATH.fullmatch(path)) or ".." in path:
        raise problems.invalid(
            "path.path",
            "a file's path is made of names of letters, digits, _, -, dots and blanks, each of at "
            f"most {LONGEST_NAME} characters, with / between, at most {LONGEST_PATH} characters "
            f"and {DEEPEST_PATH} folders, without '..'",
            "path",
            found=shown(path),
        )


def check_groups(groups: Collection[Any], open_to: Collection[Any]) -> None:
    """Raise Invalid for a group that is not among those one may share with."""
    for index, group in enumerate(groups):
        if group not in open_to:
            raise problems.invalid(
                f"/groups/{index}", "you are not in a group with this id", "unknown"
            )
