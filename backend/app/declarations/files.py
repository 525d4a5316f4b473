"""Uploading a database's files: streamed to a folder of their own, kept by their hash."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncSession

from backend.app import problems
from backend.app.auth.actors import Actor
from backend.app.cache.store import CacheStore
from backend.app.db.ids import uuid7
from backend.app.declarations import checks, queries, service
from backend.app.declarations.kinds import DATABASE
from backend.app.declarations.schemas import DatabaseFileView
from backend.app.services import Services

_PIECE = 1024 * 1024  #: bytes written at once


async def upload(
    session: AsyncSession,
    services: Services,
    actor: Actor,
    name: str,
    version: int,
    path: str,
    stream: AsyncIterator[bytes],
    expected: str | None,
) -> DatabaseFileView:
    """Store a file of a database. `expected`: its SHA-256, compared with what arrives.

    Nothing is locked while the bytes come in; who may write is asked before and after.
    """
    checks.check_file_path(path)
    await service.load_for_files(session, DATABASE, actor, name, version)
    await session.rollback()
    limit = services.settings.upload_limit
    sha256, size = await _receive(services.files, stream, limit, expected)
    row = await service.load_for_files(session, DATABASE, actor, name, version)
    known = await queries.hashes(session, row.id)
    if path not in known and len(known) >= services.settings.database_files_limit:
        most = services.settings.database_files_limit
        raise problems.Conflict(f"a database has at most {most} files", code="too_many")
    _refuse_clash(path, known)
    await queries.set_file(session, row.id, path, size, sha256)
    await service.files_changed(session, DATABASE, row)
    return DatabaseFileView(path=path, size=size, sha256=sha256)


def _refuse_clash(path: str, known: dict[str, str]) -> None:
    """A file cannot also be a folder."""
    for other in known:
        if other.startswith(path + "/") or path.startswith(other + "/"):
            raise problems.Conflict(f"{other!r} is there: a file cannot be a folder", code="path")


async def _receive(
    store: CacheStore, stream: AsyncIterator[bytes], limit: int, expected: str | None
) -> tuple[str, int]:
    aside = store.root / "incoming" / f"put-{uuid7()}"
    try:
        sha256, size = await _write(aside, stream, limit)
        if expected is not None and expected != sha256:
            raise problems.invalid(
                "query.sha256", "what arrived has another hash", "hash", found=sha256
            )
        await asyncio.to_thread(store.adopt, aside, sha256)
    finally:
        await asyncio.to_thread(aside.unlink, missing_ok=True)
    return sha256, size


async def _write(aside: Path, stream: AsyncIterator[bytes], limit: int) -> tuple[str, int]:
    digest, size, piece = hashlib.sha256(), 0, bytearray()
    file = await asyncio.to_thread(aside.open, "xb")
    try:
        async for chunk in stream:
            size += len(chunk)
            if size > limit:
                raise problems.TooLarge(f"a file has at most {limit:,} bytes")
            piece += chunk
            if len(piece) >= _PIECE:
                await asyncio.to_thread(_put, file, digest, bytes(piece))
                piece.clear()
        await asyncio.to_thread(_put, file, digest, bytes(piece))
    finally:
        await asyncio.to_thread(file.close)
    return digest.hexdigest(), size


def _put(file: object, digest: object, piece: bytes) -> None:
    file.write(piece)  # type: ignore[attr-defined]
    digest.update(piece)  # type: ignore[attr-defined]


async def remove(session: AsyncSession, actor: Actor, name: str, version: int, path: str) -> None:
    """Remove a file of a database; raises NotFound."""
    row = await service.load_for_files(session, DATABASE, actor, name, version)
    if not await queries.remove_file(session, row.id, path):
        raise problems.NotFound("this database has no file of this path")
    await service.files_changed(session, DATABASE, row)
