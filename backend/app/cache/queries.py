"""Every SQL statement about the cache's rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Select, and_, delete, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from backend.app.db.core import attempt, block, cache_entry, cache_part, experiment
from backend.scheduler.core import experiments

#: an experiment that was submitted so lately is taken for live before its state says so
JUST_SUBMITTED = timedelta(minutes=10)
LIVE = (
    experiments.State.PENDING.value,
    experiments.State.RUNNING.value,
    experiments.State.CANCELLING.value,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One file of an entry."""

    key: str
    output: str
    first: int
    last: int
    rows: int
    size: int
    sha256: str


async def parts_of(
    session: AsyncSession, keys: Collection[str]
) -> dict[tuple[str, str], list[Part]]:
    """Return the parts of entries by (key, output), in order of their ranges."""
    columns = [cache_part.c[name] for name in Part.__dataclass_fields__]
    found = await session.execute(
        select(*columns)
        .where(cache_part.c.key.in_(keys))
        .order_by(cache_part.c.key, cache_part.c.output, cache_part.c.first)
    )
    parts: dict[tuple[str, str], list[Part]] = {}
    for row in found.mappings():
        part = Part(**row)
        parts.setdefault((part.key, part.output), []).append(part)
    return parts


async def held(session: AsyncSession, keys: Collection[str]) -> frozenset[str]:
    """Return those of the keys that the cache has."""
    found = await session.execute(select(cache_entry.c.key).where(cache_entry.c.key.in_(set(keys))))
    return frozenset(found.scalars())


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What the rows say that the cache holds."""

    entries: int
    bytes: int
    hits: int
    oldest_use: datetime | None


async def totals(session: AsyncSession) -> Totals:
    """Count the entries."""
    row = (
        await session.execute(
            select(
                func.count(),
                func.coalesce(func.sum(cache_entry.c.size), 0),
                func.coalesce(func.sum(cache_entry.c.hits), 0),
                func.min(cache_entry.c.used_at),
            ).select_from(cache_entry)
        )
    ).one()
    return Totals(entries=row[0], bytes=int(row[1]), hits=int(row[2]), oldest_use=row[3])


async def largest(session: AsyncSession, limit: int) -> Sequence[Any]:
    """Return the largest entries."""
    found = await session.execute(
        select(cache_entry).order_by(cache_entry.c.size.desc(), cache_entry.c.key).limit(limit)
    )
    return found.all()


def _live_keys(now: datetime) -> Select[tuple[str]]:
    return (
        select(block.c.key)
        .join(experiment, experiment.c.id == block.c.experiment_id)
        .where(
            or_(
                experiment.c.state.in_(LIVE),
                # between the start's commit and the scheduler's, or after a restart
                and_(
                    experiment.c.submitted_at > now - JUST_SUBMITTED,
                    experiment.c.finished_at.is_(None),
                ),
            )
        )
    )


async def live_bytes(session: AsyncSession, now: datetime) -> int:
    """Return the size of the entries that live experiments need."""
    found = await session.scalar(
        select(func.coalesce(func.sum(cache_entry.c.size), 0)).where(
            cache_entry.c.key.in_(_live_keys(now))
        )
    )
    return int(found or 0)


async def removable(
    session: AsyncSession,
    now: datetime,
    *,
    unused_since: datetime | None,
    max_bytes: int | None,
) -> dict[str, int]:
    """Return key -> size of the entries to remove, locked.

    Those that no live experiment needs and that were last used before `unused_since`; of these,
    with `max_bytes`, the longest unused until all entries together are not larger than that.
    """
    statement = (
        select(cache_entry.c.key, cache_entry.c.size)
        .where(cache_entry.c.key.not_in(_live_keys(now)))
        .order_by(cache_entry.c.used_at, cache_entry.c.key)
        .with_for_update(skip_locked=True)
    )
    if unused_since is not None:
        statement = statement.where(cache_entry.c.used_at < unused_since)
    rows = (await session.execute(statement)).all()
    if max_bytes is None:
        return {row.key: row.size for row in rows}
    surplus = (await totals(session)).bytes - max_bytes
    chosen = {}
    for row in rows:
        if surplus <= 0:
            break
        chosen[row.key] = row.size
        surplus -= row.size
    return chosen


async def remove(session: AsyncSession, keys: Collection[str]) -> set[str]:
    """Delete entries; return the hashes of files that no other entry refers to."""
    gone = set(await session.scalars(select(cache_part.c.sha256).where(cache_part.c.key.in_(keys))))
    await session.execute(delete(cache_entry).where(cache_entry.c.key.in_(keys)))
    return gone - await referenced(session, gone)


async def referenced(session: AsyncSession, hashes: Collection[str]) -> set[str]:
    """Return those of the hashes that parts refer to."""
    return set(
        await session.scalars(select(cache_part.c.sha256).where(cache_part.c.sha256.in_(hashes)))
    )


async def open_attempts(session: AsyncSession) -> frozenset[str]:
    """Return the attempts that may still write."""
    return frozenset(
        await session.scalars(select(attempt.c.id).where(attempt.c.ended_at.is_(None)))
    )


async def oldest_live(session: AsyncSession) -> datetime | None:
    """Return when the oldest live experiment was submitted."""
    found: datetime | None = await session.scalar(
        select(func.min(experiment.c.submitted_at)).where(experiment.c.state.in_(LIVE))
    )
    return found


async def job_of(session: AsyncSession, block_id: UUID) -> dict[str, Any] | None:
    """Return what a block's row holds of its job."""
    found: dict[str, Any] | None = await session.scalar(
        select(block.c.job).where(block.c.id == block_id)
    )
    return found
