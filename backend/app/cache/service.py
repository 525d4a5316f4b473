"""What may be done to the cache: look, clean, drop what is broken, tidy up."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from backend.app.cache import queries, schemas
from backend.app.cache.store import CacheStore
from backend.app.db.sessions import Sessions

LARGEST = 20  #: entries shown
ABANDONED = timedelta(days=1)  #: after which an unfinished arrival is nobody's any more


async def view(session: AsyncSession, store: CacheStore, now: datetime) -> schemas.CacheView:
    """Return what the cache holds."""
    totals = await queries.totals(session)
    needed = await queries.live_bytes(session, now)
    largest = await queries.largest(session, LARGEST)
    usage = await asyncio.to_thread(store.usage)
    return schemas.CacheView(
        entries=totals.entries,
        bytes=totals.bytes,
        hits=totals.hits,
        needed_bytes=needed,
        oldest_use=totals.oldest_use,
        files=usage.files,
        files_bytes=usage.bytes,
        incoming_bytes=usage.incoming_bytes,
        free_bytes=usage.free_bytes,
        largest=[schemas.CacheEntry.model_validate(row, from_attributes=True) for row in largest],
    )


async def clean(
    session: AsyncSession, store: CacheStore, asked: schemas.CacheClean, now: datetime
) -> tuple[schemas.CacheCleaned, frozenset[str]]:
    """Remove entries and their files; return what went, and the keys. Commits.

    Rows first: a file without a row is only waste, a row without its file breaks a job.
    """
    since = (
        now - timedelta(seconds=asked.older_than_seconds)
        if asked.older_than_seconds is not None
        else None
    )
    chosen = await queries.removable(session, now, unused_since=since, max_bytes=asked.max_bytes)
    freed = 0
    if not asked.dry_run:
        files = await queries.remove(session, chosen)
        await session.commit()
        freed = await asyncio.to_thread(store.remove, files)
    cleaned = schemas.CacheCleaned(
        dry_run=asked.dry_run,
        entries=len(chosen),
        bytes=sum(chosen.values()),
        freed_bytes=freed,
    )
    return cleaned, frozenset() if asked.dry_run else frozenset(chosen)


async def drop(sessions: Sessions, store: CacheStore, keys: frozenset[str]) -> None:
    """Remove entries whose files are missing or broken; the scheduler is to be told."""
    async with sessions() as session:
        files = await queries.remove(session, keys)
        await session.commit()
    await asyncio.to_thread(store.remove, files)


async def tidy(sessions: Sessions, store: CacheStore, now: datetime) -> int:
    """Remove what nothing refers to: abandoned arrivals, old proofs, orphaned files.

    A file may wait for its row as long as a split block runs, so only those older than the
    oldest live experiment go. Returns the bytes freed.
    """
    async with sessions() as session:
        live = await queries.open_attempts(session)
        oldest = await queries.oldest_live(session)
    age = ABANDONED.total_seconds()
    names = await asyncio.to_thread(store.abandoned, older_than=age, live=live)
    await asyncio.to_thread(store.clear_abandoned, names)
    await asyncio.to_thread(store.clear_proofs, older_than=age)
    before = min(now - ABANDONED, oldest - timedelta(minutes=1) if oldest else now)
    stored = await asyncio.to_thread(lambda: list(store.stored()))
    old = [sha256 for sha256, _, arrived in stored if arrived < before.timestamp()]
    freed = 0
    for start in range(0, len(old), 1000):
        some = old[start : start + 1000]
        async with sessions() as session:
            orphans = set(some) - await queries.referenced(session, some)
        freed += await asyncio.to_thread(store.remove, orphans)
    return freed
