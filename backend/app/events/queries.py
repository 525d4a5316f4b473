"""Every SQL statement about events and about who may see them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import ColumnElement, Table, and_, exists, insert, or_, select, true
from sqlalchemy.ext.asyncio import AsyncSession

from backend.app.db.core import event, experiment, group_member, share
from backend.scheduler.ports import PublishedEvent


@dataclass(frozen=True, slots=True)
class Viewer:
    """Somebody who looks."""

    id: UUID
    admin: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """How an experiment stands."""

    state: str
    last_seq: int


def visible(viewer: Viewer) -> ColumnElement[bool]:
    """Return the condition that an experiment is one that the viewer may see."""
    return visible_in(experiment, "experiment", viewer)


def visible_in(table: Table, kind: str, viewer: Viewer) -> ColumnElement[bool]:
    """Return the condition that a row of something owned is one that the viewer may see."""
    if viewer.admin:
        return true()
    shared = (
        select(share.c.thing_id)
        .join(group_member, group_member.c.group_id == share.c.group_id)
        .where(
            share.c.kind == kind,
            share.c.thing_id == table.c.id,
            group_member.c.user_id == viewer.id,
        )
    )
    return or_(
        table.c.owner_id == viewer.id,
        table.c.visibility == "public",
        and_(table.c.visibility == "shared", exists(shared)),
    )


async def standing(session: AsyncSession, wanted: UUID, viewer: Viewer) -> Standing | None:
    """Return how an experiment stands; None when the viewer may not see it."""
    found = await session.execute(
        select(experiment.c.state, experiment.c.last_seq).where(
            experiment.c.id == wanted, visible(viewer)
        )
    )
    row = found.one_or_none()
    return Standing(row.state, row.last_seq) if row else None


async def visible_of(session: AsyncSession, wanted: Collection[UUID], viewer: Viewer) -> set[UUID]:
    """Return those of the experiments that the viewer may see."""
    found = await session.execute(
        select(experiment.c.id).where(experiment.c.id.in_(wanted), visible(viewer))
    )
    return set(found.scalars())


async def last_seqs(session: AsyncSession, wanted: Collection[UUID]) -> dict[UUID, int]:
    found = await session.execute(
        select(experiment.c.id, experiment.c.last_seq).where(experiment.c.id.in_(wanted))
    )
    return {row.id: row.last_seq for row in found}


async def events_after(
    session: AsyncSession, wanted: UUID, after: int, limit: int
) -> list[PublishedEvent]:
    """Return the next events of an experiment, in order."""
    found = await session.execute(
        select(event.c.seq, event.c.time, event.c.kind, event.c.block, event.c.details)
        .where(event.c.experiment_id == wanted, event.c.seq > after)
        .order_by(event.c.seq)
        .limit(limit)
    )
    return [
        PublishedEvent(
            experiment=str(wanted),
            seq=row.seq,
            time=row.time.timestamp(),
            kind=row.kind,
            block=row.block,
            details=row.details,
        )
        for row in found
    ]


async def groups_of(session: AsyncSession, users: Sequence[UUID]) -> dict[UUID, set[UUID]]:
    found = await session.execute(
        select(group_member.c.user_id, group_member.c.group_id).where(
            group_member.c.user_id.in_(users)
        )
    )
    groups: dict[UUID, set[UUID]] = {user: set() for user in users}
    for row in found:
        groups[row.user_id].add(row.group_id)
    return groups


async def add(session: AsyncSession, wanted: UUID, events: Sequence[PublishedEvent]) -> None:
    """Write events whose numbers follow the experiment's last; its row is locked."""
    if not events:
        return
    await session.execute(
        insert(event),
        [
            {
                "experiment_id": wanted,
                "seq": one.seq,
                "time": datetime.fromtimestamp(one.time, UTC),
                "kind": one.kind,
                "block": one.block,
                "details": one.details,
            }
            for one in events
        ],
    )


async def groups_shared_with(
    session: AsyncSession, wanted: Collection[UUID]
) -> dict[UUID, set[UUID]]:
    """Return for each experiment the groups that it is shared with."""
    found = await session.execute(
        select(share.c.thing_id, share.c.group_id).where(
            share.c.kind == "experiment", share.c.thing_id.in_(wanted)
        )
    )
    groups: dict[UUID, set[UUID]] = {}
    for row in found:
        groups.setdefault(row.thing_id, set()).add(row.group_id)
    return groups
