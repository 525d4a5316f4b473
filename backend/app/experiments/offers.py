"""The queues that a user may use, with the right on each: what an experiment is placed on."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from backend.app import farm
from backend.app.db.core import environment, queue, queue_environment, user_account
from backend.app.experiments.planning import QueueOffer
from backend.scheduler.core.model import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose experiment it is."""

    id: UUID
    username: str
    admin: bool


async def owner(session: AsyncSession, user: UUID) -> Owner:
    """Return a user as the owner of experiments."""
    columns = (user_account.c[name] for name in Owner.__dataclass_fields__)
    found = await session.execute(select(*columns).where(user_account.c.id == user))
    return Owner(**found.mappings().one())


async def usable(session: AsyncSession, who: Owner) -> list[QueueOffer]:
    """Return the queues on which the owner has a right to at least one slot, by name."""
    held = (await farm.rights_of(session, [who.id]))[who.id]
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
