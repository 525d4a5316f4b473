"""Every SQL statement about things declared, whatever their kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import Text, case, cast, delete, func, or_, select, tuple_
from sqlalchemy.dialects.postgresql import JSONPATH, insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from backend.app.auth.actors import Actor
from backend.app.db import core
from backend.app.db.tables import DatabaseFile, GroupMember, Share, metadata
from backend.app.declarations.kinds import ALGORITHM, DATA_FORMAT, DATABASE, LIBRARY, Kind, Row
from backend.app.events.queries import Viewer, visible_in
from backend.app.pages import Rows
from gristmill.formats.names import Ref

LARGEST_LISTED = 64 * 1024  #: characters of a declaration that lists show
_SUMMARY = (
    "id",
    "owner",
    "name",
    "version",
    "description",
    "visibility",
    "content_hash",
    "frozen_at",
    "created_at",
    "revision",
)


def viewer(actor: Actor) -> Viewer:
    """Return the actor as one who looks."""
    return Viewer(id=actor.id, admin=actor.admin)


def visible(kind: Kind, actor: Actor) -> Any:
    """Return the condition that a row of the kind is one that the actor may see."""
    return visible_in(metadata.tables[_table(kind)], kind.name, viewer(actor))


def _table(kind: Kind) -> str:
    return str(kind.table.__tablename__)


def summaries(
    kind: Kind, actor: Actor, owner: str | None, name: str | None, search: str | None
) -> Rows:
    """Return the query of the versions that the actor may see."""
    table = metadata.tables[_table(kind)]
    small = func.octet_length(cast(table.c.declaration, Text)) <= LARGEST_LISTED
    columns = [table.c[column] for column in _SUMMARY]
    query: Rows = select(*columns, case((small, table.c.declaration)).label("declaration"))
    query = query.where(visible(kind, actor))
    if owner is not None:
        query = query.where(table.c.owner == owner)
    if name is not None:
        query = query.where(table.c.name == name)
    if search:
        words = (table.c.name, table.c.owner, table.c.description)
        query = query.where(or_(*(word.icontains(search, autoescape=True) for word in words)))
    return query


def order(kind: Kind) -> list[Any]:
    """Return the columns that lists of the kind are ordered by."""
    columns = metadata.tables[_table(kind)].c
    return [columns.owner, columns.name, columns.version]


async def row(
    session: AsyncSession,
    kind: Kind,
    actor: Actor,
    owner: str | None,
    name: str,
    version: int,
    *,
    lock: bool = False,
) -> Row | None:
    """Return a version that the actor may see."""
    table: Any = kind.table
    query = select(table).where(table.name == name, table.version == version, visible(kind, actor))
    if owner is not None:
        query = query.where(table.owner == owner)
    if lock:
        query = query.with_for_update()
    found: Row | None = await session.scalar(query)
    return found


async def next_version(session: AsyncSession, kind: Kind, owner: str, name: str) -> int:
    """Return the version after the last one of a name."""
    table: Any = kind.table
    query = select(func.max(table.version)).where(table.name == name)
    if kind.owned_names:
        query = query.where(table.owner == owner)
    newest: int | None = await session.scalar(query)
    return (newest or 0) + 1


async def owner_of_name(session: AsyncSession, name: str) -> str | None:
    """Return who owns the versions of a database's name."""
    database = core.database
    query = select(database.c.owner).where(database.c.name == name).limit(1)
    owner: str | None = await session.scalar(query)
    return owner


# ---- what declarations name ---------------------------------------------------------------


async def reached(
    session: AsyncSession,
    kind: Kind,
    refs: Iterable[str],
    follow: Callable[[Mapping[str, Any]], Iterable[str]],
    actor: Actor,
) -> dict[str, dict[str, Any]]:
    """Return the declarations reached from some references, a query for each step away.

    What is named directly must be visible to the actor; what that names in turn comes along.
    """
    found: dict[str, dict[str, Any]] = {}
    todo, condition = set(refs), visible(kind, actor)
    while todo:
        step = await _declarations(session, kind, todo, condition)
        found |= step
        condition = None
        todo = {ref for declaration in step.values() for ref in follow(declaration)} - found.keys()
    return found


async def _declarations(
    session: AsyncSession, kind: Kind, refs: Collection[str], condition: Any
) -> dict[str, dict[str, Any]]:
    table = metadata.tables[_table(kind)]
    triples = [(ref.owner, ref.name, ref.version) for ref in map(Ref.parse, sorted(refs))]
    query = select(table.c.owner, table.c.name, table.c.version, table.c.declaration).where(
        tuple_(table.c.owner, table.c.name, table.c.version).in_(triples)
    )
    if condition is not None:
        query = query.where(condition)
    rows = await session.execute(query)
    return {f"{owner}/{name}/{version}": found for owner, name, version, found in rows}


# ---- who uses it --------------------------------------------------------------------------

#: JSON paths at which a declaration names a thing of a kind: (table, path).
_EXPERIMENT = {
    "algorithm": "$.*.*.* ? (@ == $ref)",
    "database": "$.datasets.*.database ? (@ == $ref)",
}
_DECLARED = {
    "library": ((ALGORITHM, "$.uses.* ? (@ == $ref)"), (LIBRARY, "$.uses.* ? (@ == $ref)")),
    "dataformat": (
        (ALGORITHM, "$.groups.*.*.type ? (@ == $ref)"),
        (DATABASE, "$.** ? (@ == $ref)"),
        (DATA_FORMAT, "$.** ? (@ == $ref)"),
    ),
}


async def users(
    session: AsyncSession, kind: Kind, actor: Actor, ref: str, most: int = 20
) -> tuple[list[str], int]:
    """Return what uses a thing: the names that the actor may know, and how many others."""
    seen: list[str] = []
    hidden = 0
    for table, words, key, condition in _places(kind, ref):
        may_see = visible_in(table, key, viewer(actor))
        columns = [table.c.owner, table.c.name]
        columns += [table.c.version] if "version" in table.c else []
        query: Rows = select(*columns).where(condition, may_see).limit(most)
        found = await session.execute(query)
        seen += [f"{words} {'/'.join(str(part) for part in row)}" for row in found]
        count = select(func.count()).select_from(table).where(condition, ~may_see)
        hidden += await session.scalar(count) or 0
    return seen[:most], hidden


def _places(kind: Kind, ref: str) -> list[tuple[Any, str, str, Any]]:
    """Return (table, words, kind as shared, condition) of every place that can name a thing."""
    experiment = core.experiment
    if kind.name == "toolchain":
        return [(experiment, "experiment", "experiment", experiment.c.toolchain == ref)]
    places = []
    if path := _EXPERIMENT.get(kind.name):
        condition = _names(experiment.c.declaration, path, ref)
        places.append((experiment, "experiment", "experiment", condition))
    for user, path in _DECLARED.get(kind.name, ()):
        table = metadata.tables[_table(user)]
        condition = _names(table.c.declaration, path, ref)
        places.append((table, user.words, user.name, condition))
    return places


def _names(column: Any, path: str, ref: str) -> Any:
    variables = func.jsonb_build_object("ref", cast(ref, Text))
    return func.jsonb_path_exists(column, cast(path, JSONPATH), variables)


# ---- sharing ------------------------------------------------------------------------------


async def shared_with(session: AsyncSession, kind: Kind, thing_id: UUID) -> list[UUID]:
    """Return the groups that a thing is shared with."""
    query = (
        select(col(Share.group_id))
        .where(col(Share.kind) == kind.name, col(Share.thing_id) == thing_id)
        .order_by(col(Share.group_id))
    )
    return list(await session.scalars(query))


async def groups_open_to(
    session: AsyncSession, actor: Actor, groups: Collection[UUID]
) -> set[UUID]:
    """Return those groups with which the actor may share: their own, or all for administrators."""
    if actor.admin:
        group = core.user_group
        return set(await session.scalars(select(group.c.id).where(group.c.id.in_(groups))))
    query = select(col(GroupMember.group_id)).where(
        col(GroupMember.user_id) == actor.id, col(GroupMember.group_id).in_(groups)
    )
    return set(await session.scalars(query))


async def share(
    session: AsyncSession, kind: Kind, thing_id: UUID, groups: Collection[UUID]
) -> None:
    """Share a thing with exactly these groups."""
    await unshare(session, kind, thing_id)
    rows = [{"kind": kind.name, "thing_id": thing_id, "group_id": group} for group in set(groups)]
    if rows:
        await session.execute(insert(Share).values(rows))


async def unshare(session: AsyncSession, kind: Kind, thing_id: UUID) -> None:
    """Share a thing with nobody."""
    await session.execute(
        delete(Share).where(col(Share.kind) == kind.name, col(Share.thing_id) == thing_id)
    )


# ---- files of databases -------------------------------------------------------------------


def files(database_id: UUID) -> Rows:
    """Return the query of a database's files."""
    return select(DatabaseFile).where(col(DatabaseFile.database_id) == database_id)


async def hashes(session: AsyncSession, database_id: UUID) -> dict[str, str]:
    """Return path -> SHA-256 of a database's files."""
    query = select(col(DatabaseFile.path), col(DatabaseFile.sha256)).where(
        col(DatabaseFile.database_id) == database_id
    )
    rows = await session.execute(query)
    return {row.path: row.sha256 for row in rows}


async def set_file(
    session: AsyncSession, database_id: UUID, path: str, size: int, sha256: str
) -> None:
    """Make or replace a file of a database."""
    values = {"size": size, "sha256": sha256}
    statement = insert(DatabaseFile).values(database_id=database_id, path=path, **values)
    await session.execute(
        statement.on_conflict_do_update(index_elements=["database_id", "path"], set_=values)
    )


async def remove_file(session: AsyncSession, database_id: UUID, path: str) -> bool:
    """Remove a file of a database; False when it is not there."""
    statement = (
        delete(DatabaseFile)
        .where(col(DatabaseFile.database_id) == database_id, col(DatabaseFile.path) == path)
        .returning(col(DatabaseFile.path))
    )
    return await session.scalar(statement) is not None
