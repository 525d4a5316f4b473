"""Every SQL statement about queues and slot shares."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from backend.app.db import core
from backend.app.db.tables import Environment, Queue, QueueEnvironment, SlotShare, Worker
from backend.app.pages import Rows
from backend.app.queues.schemas import OfferedEnvironment, QueueView, SlotShareView
from backend.scheduler.core import blocks, experiments

_LIVE = [state.value for state in experiments.LIVE]


async def views(session: AsyncSession, queues: Collection[Queue]) -> list[QueueView]:
    """Return queues with what they offer, in the order given."""
    offered = await environments(session, [queue.id for queue in queues])
    return [
        QueueView(**queue.model_dump(), environments=offered.get(queue.id, [])) for queue in queues
    ]


async def environments(
    session: AsyncSession, queues: Collection[UUID]
) -> dict[UUID, list[OfferedEnvironment]]:
    """Return the environments that queues offer, by name."""
    query = (
        select(col(QueueEnvironment.queue_id), Environment)
        .join(Environment, col(Environment.id) == col(QueueEnvironment.environment_id))
        .where(col(QueueEnvironment.queue_id).in_(queues))
        .order_by(col(Environment.name), col(Environment.version))
    )
    offered: dict[UUID, list[OfferedEnvironment]] = {}
    for queue_id, environment in await session.execute(query):
        view = OfferedEnvironment.model_validate(environment, from_attributes=True)
        offered.setdefault(queue_id, []).append(view)
    return offered


async def known_environments(session: AsyncSession, ids: Collection[UUID]) -> set[UUID]:
    """Return those of some ids that are environments."""
    return set(
        await session.scalars(select(col(Environment.id)).where(col(Environment.id).in_(ids)))
    )


async def offer(session: AsyncSession, queue_id: UUID, ids: Sequence[UUID]) -> None:
    """Make a queue offer exactly these environments."""
    await session.execute(
        delete(QueueEnvironment).where(
            col(QueueEnvironment.queue_id) == queue_id,
            col(QueueEnvironment.environment_id).not_in(ids),
        )
    )
    rows = [{"queue_id": queue_id, "environment_id": id_} for id_ in ids]
    await session.execute(insert(QueueEnvironment).values(rows).on_conflict_do_nothing())


async def experiments_on(
    session: AsyncSession, queue_id: UUID, *, live: bool = False, most: int = 20
) -> list[str]:
    """Return the experiments with blocks on a queue, or those that live."""
    experiment, block = core.experiment, core.block
    query: Any = (
        select(experiment.c.owner + "/" + experiment.c.name, experiment.c.state)
        .join(block, block.c.experiment_id == experiment.c.id)
        .where(block.c.queue_id == queue_id)
        .distinct()
        .limit(most)
    )
    if live:
        query = query.where(experiment.c.state.in_(_LIVE))
    return [f"experiment {name} ({state})" for name, state in await session.execute(query)]


async def users_of_environments(
    session: AsyncSession, queue_id: UUID, ids: Collection[UUID], most: int = 20
) -> list[str]:
    """Return the live experiments that run in some environments of a queue."""
    experiment, block, environment = core.experiment, core.block, core.environment
    query: Any = (
        select(experiment.c.owner + "/" + experiment.c.name)
        .join(block, block.c.experiment_id == experiment.c.id)
        .join(
            environment,
            (environment.c.name == block.c.environment_name)
            & (environment.c.version == block.c.environment_version),
        )
        .where(
            block.c.queue_id == queue_id,
            environment.c.id.in_(ids),
            experiment.c.state.in_(_LIVE),
        )
        .distinct()
        .limit(most)
    )
    return [f"experiment {name}" for name in await session.scalars(query)]


# ---- what a user may use ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Given:
    """A right that one of a user's groups gives."""

    queue_id: UUID
    group: str
    slots: int
    priority: int


async def given_to(session: AsyncSession, user_id: UUID) -> list[Given]:
    """Return the rights that a user's groups give, the group's name among them."""
    right, member, group = core.group_queue_right, core.group_member, core.user_group
    query = (
        select(right.c.queue_id, group.c.name, right.c.slots, right.c.priority)
        .join(member, member.c.group_id == right.c.group_id)
        .join(group, group.c.id == right.c.group_id)
        .where(member.c.user_id == user_id)
        .order_by(group.c.name)
    )
    return [Given(*row) for row in await session.execute(query)]


async def waiting(session: AsyncSession, queues: Collection[UUID]) -> dict[UUID, int]:
    """Return how many blocks wait for a slot, by queue."""
    block = core.block
    query = (
        select(block.c.queue_id, func.count())
        .where(block.c.queue_id.in_(queues), block.c.state == blocks.State.QUEUED.value)
        .group_by(block.c.queue_id)
    )
    return {row[0]: row[1] for row in await session.execute(query)}


async def running(session: AsyncSession, queues: Collection[UUID]) -> dict[UUID, int]:
    """Return how many jobs are with a worker, by queue."""
    block, attempt = core.block, core.attempt
    query = (
        select(block.c.queue_id, func.count())
        .join(attempt, attempt.c.block_id == block.c.id)
        .where(attempt.c.ended_at.is_(None), block.c.queue_id.in_(queues))
        .group_by(block.c.queue_id)
    )
    return {row[0]: row[1] for row in await session.execute(query)}


# ---- slot shares --------------------------------------------------------------------------


def shares(queue_id: UUID | None, worker_id: UUID | None) -> Rows:
    """Return the query of slot shares, those of a queue or of a worker."""
    query: Rows = (
        select(SlotShare, col(Queue.name).label("queue"), col(Worker.name).label("worker"))
        .join(Queue, col(Queue.id) == col(SlotShare.queue_id))
        .join(Worker, col(Worker.id) == col(SlotShare.worker_id))
    )
    if queue_id is not None:
        query = query.where(col(SlotShare.queue_id) == queue_id)
    if worker_id is not None:
        query = query.where(col(SlotShare.worker_id) == worker_id)
    return query


def share_view(row: Any) -> SlotShareView:
    """Return a row of `shares` as it is shown."""
    share, queue, worker = row
    return SlotShareView(**share.model_dump(), queue=queue, worker=worker)


async def share(session: AsyncSession, queue_id: UUID, worker_id: UUID) -> SlotShareView | None:
    """Return one slot share."""
    row = (await session.execute(shares(queue_id, worker_id))).one_or_none()
    return share_view(row) if row else None


async def set_share(session: AsyncSession, queue_id: UUID, worker_id: UUID, slots: int) -> None:
    """Make or replace a slot share."""
    statement = insert(SlotShare).values(queue_id=queue_id, worker_id=worker_id, slots=slots)
    await session.execute(
        statement.on_conflict_do_update(
            index_elements=["queue_id", "worker_id"], set_={"slots": slots}
        )
    )


async def remove_share(session: AsyncSession, queue_id: UUID, worker_id: UUID) -> None:
    """Remove a slot share; the queue's own number holds again."""
    await session.execute(
        delete(SlotShare).where(
            col(SlotShare.queue_id) == queue_id, col(SlotShare.worker_id) == worker_id
        )
    )
