"""The queues that a user may use, with the right on each: what an experiment is placed on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from backend.app.db.core import (
    environment,
    group_member,
    group_queue_right,
    queue,
    queue_environment,
    slot_share,
    user_account,
    worker,
)
from backend.app.experiments.planning import QueueOffer
from backend.scheduler.core import rights
from backend.scheduler.core.model import Environment, Right


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose experiment it is, as far as it matters for rights."""

    id: UUID
    username: str
    reputation: int
    admin: bool


async def owner(session: AsyncSession, user: UUID) -> Owner:
    """Return a user as the owner of experiments."""
    columns = (user_account.c[name] for name in Owner.__dataclass_fields__)
    found = await session.execute(select(*columns).where(user_account.c.id == user))
    return Owner(**found.mappings().one())


async def usable(session: AsyncSession, who: Owner) -> list[QueueOffer]:
    """Return the queues on which the owner has a right to at least one slot, by name."""
    given = await _given(session, who.id)
    totals = await _totals(session, list(given))
    held = rights.held(given, who.reputation, totals)
    environments = await _environments(session, list(held))
    found = await session.execute(
        select(queue.c.id, queue.c.name, environment.c.name, environment.c.version)
        .join(environment, environment.c.id == queue.c.default_environment_id)
        .where(queue.c.id.in_([UUID(id_) for id_ in held]))
        .order_by(queue.c.name)
    )
    return [
        QueueOffer(
            id=str(id_),
            name=name,
            slots=held[str(id_)].slots,
            priority=held[str(id_)].priority,
            environments=frozenset({*environments.get(str(id_), ()), (default, version)}),
            default_environment=(default, version),
        )
        for id_, name, default, version in found
    ]


async def _given(session: AsyncSession, user: UUID) -> dict[str, list[Right]]:
    """Return the rights that each of the user's groups gives, by queue."""
    found = await session.execute(
        select(
            group_queue_right.c.queue_id, group_queue_right.c.slots, group_queue_right.c.priority
        )
        .join(group_member, group_member.c.group_id == group_queue_right.c.group_id)
        .where(group_member.c.user_id == user)
    )
    given: dict[str, list[Right]] = {}
    for row in found:
        given.setdefault(str(row.queue_id), []).append(
            Right(slots=row.slots, priority=row.priority)
        )
    return given


async def _totals(session: AsyncSession, queues: list[str]) -> dict[str, int]:
    """Return the slots of each queue over all workers."""
    slots: Any = func.coalesce(slot_share.c.slots, queue.c.slots_per_worker)
    found = await session.execute(
        select(queue.c.id, func.sum(slots))
        .select_from(queue)
        .join(worker, worker.c.id.is_not(None))
        .outerjoin(
            slot_share,
            (slot_share.c.queue_id == queue.c.id) & (slot_share.c.worker_id == worker.c.id),
        )
        .where(queue.c.id.in_([UUID(id_) for id_ in queues]))
        .group_by(queue.c.id)
    )
    return {str(id_): int(total) for id_, total in found}


async def _environments(session: AsyncSession, queues: list[str]) -> dict[str, list[Environment]]:
    found = await session.execute(
        select(queue_environment.c.queue_id, environment.c.name, environment.c.version)
        .join(environment, environment.c.id == queue_environment.c.environment_id)
        .where(queue_environment.c.queue_id.in_([UUID(id_) for id_ in queues]))
    )
    offered: dict[str, list[Environment]] = {}
    for id_, name, version in found:
        offered.setdefault(str(id_), []).append((name, version))
    return offered
