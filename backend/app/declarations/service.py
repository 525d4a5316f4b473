"""Declaring, changing, sharing and deleting versions of things, whatever their kind."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from backend.app import etags, problems
from backend.app.audit.service import record
from backend.app.auth.actors import Actor
from backend.app.conflicts import flush_unique, in_use
from backend.app.db.visibility import Visibility
from backend.app.declarations import checks, queries
from backend.app.declarations.kinds import Kind, Row
from backend.app.declarations.schemas import (
    Declared,
    DeclaredChange,
    DeclaredSummary,
    NewDeclared,
    Sharing,
)

#: Parts of a declaration that no result depends on.
_PROSE = frozenset({"description", "#description", "representation"})


async def create(
    session: AsyncSession, kind: Kind, actor: Actor, wanted: NewDeclared, now: datetime
) -> Declared:
    """Declare a version; raises Invalid with pointers, or Conflict when it is there already."""
    checks.check_name(wanted.name)
    checks.check_content(kind, source=wanted.source, files=wanted.files)
    await _check_owner_of_name(session, kind, actor, wanted.name)
    version = wanted.version
    if version is None:
        version = await queries.next_version(session, kind, actor.username, wanted.name)
    row = kind.table(
        owner_id=actor.id,
        owner=actor.username,
        name=wanted.name,
        version=version,
        declaration=wanted.declaration,
        documentation=wanted.documentation,
        visibility=wanted.visibility.value,
        content_hash="",
        created_at=now,
        **_content(kind, wanted),
    )
    await checks.check(session, kind, actor, kind.ref(row), wanted.declaration)
    _settle(kind, row)
    session.add(row)
    await flush_unique(session, "/version", f"there is a {kind.words} {kind.ref(row)} already")
    await _share(session, kind, actor, row, wanted.groups)
    await session.commit()
    return await whole(session, kind, actor, row)


def _content(kind: Kind, wanted: NewDeclared) -> dict[str, Any]:
    return {kind.content: getattr(wanted, kind.content)} if kind.content else {}


async def _check_owner_of_name(session: AsyncSession, kind: Kind, actor: Actor, name: str) -> None:
    """Databases share one space of names: the next version is for who made the first."""
    if kind.owned_names:
        return
    owner = await queries.owner_of_name(session, name)
    if owner not in (None, actor.username) and not actor.admin:
        message = "a database of this name is somebody else's"
        raise problems.invalid("/name", message, "taken", found=name)


def _settle(kind: Kind, row: Row, files: Mapping[str, str] | None = None) -> None:
    """Set what follows from the rest of a row."""
    description = row.declaration.get("description", row.declaration.get("#description", ""))
    row.description = description if isinstance(description, str) else ""
    row.content_hash = content_hash(kind, row, files)


def content_hash(kind: Kind, row: Row, files: Mapping[str, str] | None = None) -> str:
    """Return the SHA-256 of everything in a version that a result depends on."""
    content = {
        "declaration": {key: v for key, v in row.declaration.items() if key not in _PROSE},
        "content": getattr(row, kind.content) if kind.content else None,
        "files": dict(files or {}),
    }
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


async def _share(
    session: AsyncSession, kind: Kind, actor: Actor, row: Row, groups: Sequence[UUID]
) -> None:
    shared = row.visibility == Visibility.SHARED
    if groups and not shared:
        raise problems.invalid("/groups", "only with the visibility 'shared'", "unexpected")
    checks.check_groups(groups, await queries.groups_open_to(session, actor, groups))
    await queries.share(session, kind, row.id, groups)


# ---- looking ------------------------------------------------------------------------------


async def load(
    session: AsyncSession,
    kind: Kind,
    actor: Actor,
    owner: str | None,
    name: str,
    version: int,
    *,
    lock: bool = False,
) -> Row:
    """Return a version that the actor may see; raises NotFound."""
    row = await queries.row(session, kind, actor, owner, name, version, lock=lock)
    if row is None:
        ref = "/".join(str(part) for part in (owner, name, version) if part is not None)
        raise problems.NotFound(f"there is no {kind.words} {ref}, or you may not see it")
    return row


async def _load_own(
    session: AsyncSession, kind: Kind, actor: Actor, owner: str | None, name: str, version: int
) -> Row:
    """Return a version, locked, that the actor may change; raises NotFound or Forbidden."""
    row = await load(session, kind, actor, owner, name, version, lock=True)
    if row.owner_id != actor.id and not actor.admin:
        raise problems.Forbidden(f"{kind.ref(row)} belongs to {row.owner!r}", code="not_owner")
    return row


async def whole(session: AsyncSession, kind: Kind, actor: Actor, row: Row) -> Declared:
    """Return a version with everything in it."""
    own = row.owner_id == actor.id or actor.admin
    return Declared(
        **row.model_dump(exclude={"owner_id", "frozen_at"}),
        ref=kind.ref(row),
        frozen=row.frozen_at is not None,
        groups=await queries.shared_with(session, kind, row.id) if own else [],
    )


def summary(kind: Kind, row: Any) -> DeclaredSummary:
    """Return a row of `queries.summaries` as lists show it."""
    values = row._asdict()
    frozen = values.pop("frozen_at") is not None
    return DeclaredSummary(**values, ref=kind.ref(row), frozen=frozen)


# ---- changing -----------------------------------------------------------------------------


async def update(
    session: AsyncSession,
    kind: Kind,
    actor: Actor,
    owner: str | None,
    name: str,
    version: int,
    change: DeclaredChange,
    if_match: str | None,
) -> Declared:
    """Change a version; once an experiment has used it, its documentation alone."""
    row = await _load_own(session, kind, actor, owner, name, version)
    etags.require(if_match, row.revision)
    values = change.model_dump(exclude_unset=True)
    unfit = {"source", "files"} & values.keys() - {kind.content}
    if unfit:
        what = unfit.pop()
        raise problems.invalid(f"/{what}", f"a {kind.words} has no {what}", "unexpected")
    _refuse_frozen(kind, row, {key: v for key, v in values.items() if v != getattr(row, key)})
    for key, value in values.items():
        setattr(row, key, value)
    if kind.content in values:
        content: dict[str, Any] = {"source": None, "files": None}
        checks.check_content(kind, **content | {kind.content: values[kind.content]})
    if "declaration" in values:
        with session.no_autoflush:
            await checks.check(session, kind, actor, kind.ref(row), row.declaration)
    _settle(kind, row, await _file_hashes(session, kind, row))
    row.revision += 1
    await session.commit()
    return await whole(session, kind, actor, row)


def _refuse_frozen(kind: Kind, row: Row, changed: Mapping[str, Any]) -> None:
    if row.frozen_at is not None and changed.keys() - {"documentation"}:
        raise problems.Frozen(
            f"{kind.ref(row)} was used by an experiment and never changes: declare version "
            f"{row.version + 1} instead"
        )


async def _file_hashes(session: AsyncSession, kind: Kind, row: Row) -> dict[str, str]:
    if kind.owned_names:
        return {}
    with session.no_autoflush:
        return await queries.hashes(session, row.id)


async def set_sharing(
    session: AsyncSession,
    kind: Kind,
    actor: Actor,
    owner: str | None,
    name: str,
    version: int,
    sharing: Sharing,
    if_match: str | None,
    now: datetime,
) -> Declared:
    """Say who may see a version; experiments that use it already go on."""
    row = await _load_own(session, kind, actor, owner, name, version)
    etags.require(if_match, row.revision)
    before = {"visibility": row.visibility}
    row.visibility = sharing.visibility.value
    row.revision += 1
    await _share(session, kind, actor, row, sharing.groups)
    thing = f"{kind.words} {kind.ref(row)}"
    record(session, actor, f"share_{kind.name}", thing, now, before=before, after=sharing)
    await session.commit()
    return await whole(session, kind, actor, row)


async def delete(
    session: AsyncSession,
    kind: Kind,
    actor: Actor,
    owner: str | None,
    name: str,
    version: int,
    if_match: str | None,
    now: datetime,
) -> None:
    """Delete a version that nothing names; raises InUse with what does."""
    row = await _load_own(session, kind, actor, owner, name, version)
    etags.require(if_match, row.revision)
    users, hidden = await queries.users(session, kind, actor, kind.ref(row))
    if users or hidden:
        others = f", {hidden} of them other people's" if hidden else ""
        raise in_use(f"{kind.ref(row)} is used by {len(users) + hidden} things{others}", users)
    thing = f"{kind.words} {kind.ref(row)}"
    record(session, actor, f"delete_{kind.name}", thing, now, before={"hash": row.content_hash})
    await queries.unshare(session, kind, row.id)
    await session.delete(row)
    await session.commit()


# ---- files of databases -------------------------------------------------------------------


async def load_for_files(
    session: AsyncSession, kind: Kind, actor: Actor, name: str, version: int
) -> Row:
    """Return a database, locked, whose files the actor may change; raises Frozen."""
    row = await _load_own(session, kind, actor, None, name, version)
    _refuse_frozen(kind, row, {"files": None})
    return row


async def files_changed(session: AsyncSession, kind: Kind, row: Row) -> None:
    """Settle a database whose files changed, and commit."""
    _settle(kind, row, await queries.hashes(session, row.id))
    row.revision += 1
    await session.commit()
