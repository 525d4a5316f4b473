"""Every SQL statement of the administrators' pages and of the monitor."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from backend.app.db.core import (
    attempt,
    block,
    experiment,
    queue,
    user_account,
    worker,
    worker_environment,
)
from backend.app.events.queries import Viewer, visible
from backend.scheduler.core import experiments

STOPPABLE = (experiments.State.PENDING.value, experiments.State.RUNNING.value)


async def stoppable(session: AsyncSession) -> list[UUID]:
    """Return the experiments that can be stopped, oldest first."""
    return list(
        await session.scalars(
            select(experiment.c.id)
            .where(experiment.c.state.in_(STOPPABLE))
            .order_by(experiment.c.id)
        )
    )


async def usernames(session: AsyncSession, ids: Collection[UUID]) -> dict[str, str]:
    """Return names of users by id."""
    found = await session.execute(
        select(user_account.c.id, user_account.c.username).where(user_account.c.id.in_(ids))
    )
    return {str(row.id): row.username for row in found}


async def jobs(session: AsyncSession, viewer: Viewer) -> dict[str, Any]:
    """Return the open attempts of experiments that the viewer may see, by attempt."""
    found = await session.execute(
        select(
            attempt.c.id,
            experiment.c.id.label("experiment_id"),
            experiment.c.name.label("experiment"),
            experiment.c.owner,
            block.c.name.label("block"),
        )
        .join(block, block.c.id == attempt.c.block_id)
        .join(experiment, experiment.c.id == attempt.c.experiment_id)
        .where(attempt.c.ended_at.is_(None), visible(viewer))
    )
    return {row.id: row for row in found}


async def open_attempts(session: AsyncSession) -> dict[UUID, list[str]]:
    """Return the open attempts of each worker."""
    found = await session.execute(
        select(attempt.c.worker_id, attempt.c.id)
        .where(attempt.c.ended_at.is_(None), attempt.c.worker_id.is_not(None))
        .order_by(attempt.c.id)
    )
    by_worker: dict[UUID, list[str]] = {}
    for row in found:
        by_worker.setdefault(row.worker_id, []).append(row.id)
    return by_worker


async def workers(session: AsyncSession) -> Sequence[Any]:
    """Return all workers, by name."""
    found = await session.execute(select(worker).order_by(worker.c.name))
    return list(found.all())


async def worker_environments(session: AsyncSession) -> dict[UUID, list[Any]]:
    """Return the environments of every worker."""
    columns = (
        worker_environment.c.worker_id,
        worker_environment.c.name,
        worker_environment.c.version,
        worker_environment.c.os,
    )
    found = await session.execute(select(*columns).order_by(*columns[1:3]))
    by_worker: dict[UUID, list[Any]] = {}
    for row in found:
        by_worker.setdefault(row.worker_id, []).append(row)
    return by_worker


async def queue_names(session: AsyncSession) -> dict[str, str]:
    """Return names of queues by id."""
    found = await session.execute(select(queue.c.id, queue.c.name))
    return {str(row.id): row.name for row in found}
