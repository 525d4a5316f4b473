"""Gathers what an experiment names: algorithms, databases, and the closures of what they use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from backend.app.events.queries import Viewer
from backend.app.experiments import queries
from backend.app.experiments.planning import (
    AlgorithmSource,
    DatabaseSource,
    DataFile,
    LibrarySource,
    Sources,
)
from gristmill.formats.algorithms import named_formats
from gristmill.formats.databases import named_formats as formats_of_database
from gristmill.formats.dataformats import references
from gristmill.formats.experiments import named
from gristmill.formats.names import DatabaseRef, Ref
from gristmill.formats.problems import BadDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The sources, and their rows by kind, id -> content hash: fixed when the experiment starts."""

    sources: Sources
    used: Mapping[str, Mapping[UUID, str]] = field(default_factory=dict)


async def gather(session: AsyncSession, viewer: Viewer, declaration: Mapping[str, Any]) -> Gathered:
    """Return what an experiment of the right form names, as far as it is there.

    What is named directly must be visible to the viewer; what that uses in turn comes along.
    """
    algorithms, databases = named(declaration)
    algorithm_rows = await _versions(session, "algorithm", algorithms, viewer)
    database_rows = await _databases(session, databases, viewer)
    files = await queries.database_files(session, {row.id for row in database_rows.values()})
    uses = {
        ref for row in algorithm_rows.values() for ref in row.declaration.get("uses", {}).values()
    }
    library_rows = await _closure(session, "library", uses, _used)
    wanted = {ref for row in algorithm_rows.values() for ref in named_formats(row.declaration)}
    for row in database_rows.values():
        wanted |= set(formats_of_database(row.declaration))
    format_rows = await _closure(session, "dataformat", wanted, references)
    return Gathered(
        sources=_sources(algorithm_rows, library_rows, format_rows, database_rows, files),
        used={
            kind: {row.id: row.content_hash for row in rows.values()}
            for kind, rows in (
                ("algorithm", algorithm_rows),
                ("library", library_rows),
                ("dataformat", format_rows),
                ("database", database_rows),
            )
        },
    )


Rows = Mapping[str, Any]  #: reference -> row


def _sources(
    algorithms: Rows,
    libraries: Rows,
    formats: Rows,
    databases: Rows,
    files: Mapping[UUID, list[Any]],
) -> Sources:
    return Sources(
        algorithms={
            ref: AlgorithmSource(declaration=row.declaration, source=row.source)
            for ref, row in algorithms.items()
        },
        libraries={
            ref: LibrarySource(declaration=row.declaration, files=row.files)
            for ref, row in libraries.items()
        },
        formats={ref: row.declaration for ref, row in formats.items()},
        databases={
            ref: DatabaseSource(
                declaration=row.declaration,
                source=row.source,
                files=tuple(
                    DataFile(path=f.path, size=f.size, sha256=f.sha256) for f in files[row.id]
                ),
            )
            for ref, row in databases.items()
        },
    )


def _used(declaration: Mapping[str, Any]) -> Iterable[str]:
    return list(declaration.get("uses", {}).values())


async def _closure(
    session: AsyncSession, kind: str, refs: Iterable[str], follow: Any
) -> dict[str, Any]:
    """Return the versions reached from some, a query for each step away from them."""
    found: dict[str, Any] = {}
    todo = set(refs)
    while todo:
        rows = await _versions(session, kind, todo, None)
        found.update(rows)
        todo = {ref for row in rows.values() for ref in follow(row.declaration)} - found.keys()
    return found


async def _versions(
    session: AsyncSession, kind: str, refs: Iterable[str], viewer: Viewer | None
) -> dict[str, Any]:
    triples = [(r.owner, r.name, r.version) for r in _parsed(refs)]
    if not triples:
        return {}
    rows = await queries.versions(session, kind, triples, viewer)
    return {f"{row.owner}/{row.name}/{row.version}": row for row in rows}


def _parsed(refs: Iterable[str]) -> list[Ref]:
    parsed = []
    for ref in sorted(refs):
        try:
            parsed.append(Ref.parse(ref))
        except BadDocument:  # told by the checks of the declaration that holds it
            continue
    return parsed


async def _databases(session: AsyncSession, refs: Iterable[str], viewer: Viewer) -> dict[str, Any]:
    pairs = [(r.name, r.version) for r in map(DatabaseRef.parse, refs)]
    rows = await queries.databases(session, pairs, viewer) if pairs else []
    return {f"{row.name}/{row.version}": row for row in rows}


async def toolchain(session: AsyncSession, viewer: Viewer, ref: str) -> Any:
    """Return the row of a toolchain that the viewer may see, or None."""
    return (await _versions(session, "toolchain", [ref], viewer)).get(ref)
