"""Every SQL statement about workers and their credentials, as administrators need them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from backend.app.db.tables import (
    Attempt,
    Block,
    Experiment,
    Worker,
    WorkerCredential,
    WorkerEnvironment,
)
from backend.app.workers.schemas import WorkerEnvironmentView, WorkerView


async def views(session: AsyncSession, workers: Collection[Worker]) -> list[WorkerView]:
    """Return workers with environments and running jobs, in the order given."""
    ids = [worker.id for worker in workers]
    environments = await _environments(session, ids)
    running = await _running(session, ids)
    return [
        WorkerView(
            **worker.model_dump(exclude={"session"}),
            environments=environments.get(worker.id, []),
            running=running.get(worker.id, 0),
        )
        for worker in workers
    ]


async def _environments(
    session: AsyncSession, ids: Collection[UUID]
) -> dict[UUID, list[WorkerEnvironmentView]]:
    query = (
        select(WorkerEnvironment)
        .where(col(WorkerEnvironment.worker_id).in_(ids))
        .order_by(col(WorkerEnvironment.name), col(WorkerEnvironment.version))
    )
    found: dict[UUID, list[WorkerEnvironmentView]] = {}
    for row in await session.scalars(query):
        view = WorkerEnvironmentView(name=row.name, version=row.version, os=row.os)
        found.setdefault(row.worker_id, []).append(view)
    return found


async def _running(session: AsyncSession, ids: Collection[UUID]) -> dict[UUID, int]:
    query = (
        select(col(Attempt.worker_id), func.count())
        .where(col(Attempt.worker_id).in_(ids), col(Attempt.ended_at).is_(None))
        .group_by(col(Attempt.worker_id))
    )
    return {worker: count for worker, count in await session.execute(query) if worker}


async def locked_worker(session: AsyncSession, worker_id: UUID) -> Worker | None:
    """Return a worker, locked until the end of the transaction."""
    return await session.get(Worker, worker_id, with_for_update=True)


async def jobs_on(session: AsyncSession, worker_id: UUID, most: int = 20) -> list[str]:
    """Return the jobs that are with a worker, as people know them."""
    query = (
        select(col(Experiment.owner), col(Experiment.name), col(Block.name))
        .join(Block, col(Block.experiment_id) == col(Experiment.id))
        .join(Attempt, col(Attempt.block_id) == col(Block.id))
        .where(col(Attempt.worker_id) == worker_id, col(Attempt.ended_at).is_(None))
        .order_by(col(Attempt.id))
        .limit(most)
    )
    return [
        f"block {block} of experiment {owner}/{name}"
        for owner, name, block in await session.execute(query)
    ]


async def has_live_credential(session: AsyncSession, name: str, now: datetime) -> bool:
    """Tell whether a worker's name has a credential in force."""
    expires = col(WorkerCredential.expires_at)
    query = select(col(WorkerCredential.id)).where(
        col(WorkerCredential.worker_name) == name,
        col(WorkerCredential.revoked_at).is_(None),
        or_(expires.is_(None), expires > now),
    )
    return await session.scalar(query.limit(1)) is not None


async def worker_named(session: AsyncSession, name: str) -> Worker | None:
    """Return a worker by name."""
    return await session.scalar(select(Worker).where(col(Worker.name) == name))
