"""Every SQL statement of the worker protocol."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import delete, select, text, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from backend.app.db.core import (
    algorithm,
    block,
    database,
    experiment,
    library,
    log_chunk,
    queue,
    worker,
    worker_environment,
)
from backend.app.worker_api.schemas import FoundEnvironment
from backend.scheduler.core.model import WorkerState

Triple = tuple[str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The registration in force of a worker."""

    session: UUID | None
    state: WorkerState


async def standing(session: AsyncSession, worker_id: UUID) -> Standing | None:
    """Return a worker's registration; None when there is no such worker."""
    found = await session.execute(
        select(worker.c.session, worker.c.state).where(worker.c.id == worker_id)
    )
    row = found.one_or_none()
    return Standing(session=row.session, state=WorkerState(row.state)) if row else None


async def put_worker(session: AsyncSession, values: dict[str, Any]) -> UUID:
    """Write a worker as it says it is; return its id. A drained one stays drained."""
    statement = insert(worker).values(state=WorkerState.ONLINE.value, **values)
    said = {name: value for name, value in values.items() if name not in ("id", "created_at")}
    kept = WorkerState.DRAINING.value
    statement = statement.on_conflict_do_update(
        index_elements=[worker.c.name],
        set_=said
        | {
            "state": text(f"CASE WHEN worker.state = '{kept}' THEN '{kept}' ELSE 'online' END"),
        },
    )
    found: UUID | None = await session.scalar(statement.returning(worker.c.id))
    assert found is not None
    return found


async def put_environments(
    session: AsyncSession, worker_id: UUID, found: Sequence[FoundEnvironment]
) -> None:
    """Write the environments that a worker found on itself."""
    await session.execute(
        delete(worker_environment).where(worker_environment.c.worker_id == worker_id)
    )
    rows = {
        (one.name, one.version): {
            "worker_id": worker_id,
            "name": one.name,
            "version": one.version,
            "os": one.os,
            "packages": one.packages,
        }
        for one in found
    }
    if rows:
        await session.execute(insert(worker_environment), list(rows.values()))


# ---- assignments ----


async def blocks(session: AsyncSession, ids: Collection[UUID]) -> dict[str, Any]:
    """Return blocks with their experiment and the limits of their queue, by id."""
    found = await session.execute(
        select(
            block.c.id,
            block.c.name,
            block.c.kind,
            block.c.algorithm,
            block.c.job,
            block.c.key,
            block.c.environment_name,
            block.c.environment_version,
            experiment.c.id.label("experiment_id"),
            experiment.c.name.label("experiment_name"),
            experiment.c.owner,
            queue.c.name.label("queue_name"),
            queue.c.memory_mb,
            queue.c.time_limit_seconds,
            queue.c.cores_per_slot,
        )
        .join(experiment, experiment.c.id == block.c.experiment_id)
        .join(queue, queue.c.id == block.c.queue_id)
        .where(block.c.id.in_(ids))
    )
    return {str(row.id): row for row in found}


async def algorithm_sources(session: AsyncSession, refs: Collection[Triple]) -> dict[str, str]:
    """Return the source of algorithms by reference."""
    if not refs:
        return {}
    t = algorithm.c
    found = await session.execute(
        select(t.owner, t.name, t.version, t.source).where(
            tuple_(t.owner, t.name, t.version).in_(list(refs))
        )
    )
    return {f"{row.owner}/{row.name}/{row.version}": row.source for row in found}


async def library_files(
    session: AsyncSession, refs: Collection[Triple]
) -> dict[str, dict[str, str]]:
    """Return the files of libraries by reference."""
    if not refs:
        return {}
    t = library.c
    found = await session.execute(
        select(t.owner, t.name, t.version, t.files).where(
            tuple_(t.owner, t.name, t.version).in_(list(refs))
        )
    )
    return {f"{row.owner}/{row.name}/{row.version}": row.files for row in found}


async def database_sources(
    session: AsyncSession, refs: Collection[tuple[str, int]]
) -> dict[str, str]:
    """Return the views of databases by name/version."""
    if not refs:
        return {}
    t = database.c
    found = await session.execute(
        select(t.name, t.version, t.source).where(tuple_(t.name, t.version).in_(list(refs)))
    )
    return {f"{row.name}/{row.version}": row.source for row in found}


# ---- reports ----


async def jobs(session: AsyncSession, ids: Collection[UUID]) -> dict[str, dict[str, Any]]:
    """Return what blocks hold of their jobs, by block id."""
    found = await session.execute(select(block.c.id, block.c.job).where(block.c.id.in_(ids)))
    return {str(row.id): row.job for row in found}


async def commit_lightly(session: AsyncSession) -> None:
    """Let this transaction be lost in a crash: it waits for no disk."""
    await session.execute(text("SET LOCAL synchronous_commit = off"))


async def add_log(session: AsyncSession, rows: Sequence[dict[str, Any]]) -> None:
    """Write pieces of logs; what is there already stays."""
    await session.execute(insert(log_chunk).on_conflict_do_nothing(), list(rows))
