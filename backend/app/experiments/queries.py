"""Every SQL statement about experiments and their blocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Select, bindparam, delete, func, insert, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from backend.app.db.core import (
    algorithm,
    attempt,
    block,
    cache_entry,
    cache_part,
    data_format,
    database,
    database_file,
    experiment,
    held_right,
    library,
    log_chunk,
    queue,
    share,
    toolchain,
)
from backend.app.events.queries import Viewer, visible, visible_in

SUMMARY = (
    "id",
    "name",
    "owner",
    "owner_id",
    "toolchain",
    "state",
    "visibility",
    "description",
    "created_at",
    "submitted_at",
    "started_at",
    "finished_at",
    "last_seq",
    "revision",
)
VERSIONED = {
    "algorithm": algorithm,
    "library": library,
    "dataformat": data_format,
    "toolchain": toolchain,
    "database": database,
}
_SUMMARY_COLUMNS = tuple(experiment.c[name] for name in SUMMARY)


# ---- experiments ----


def listed(
    viewer: Viewer, *, state: str | None, owner: str | None, text: str | None
) -> Select[Any]:
    """Return the query for the experiments that the viewer may see."""
    statement: Select[Any] = select(*_SUMMARY_COLUMNS).where(visible(viewer))
    if state is not None:
        statement = statement.where(experiment.c.state == state)
    if owner is not None:
        statement = statement.where(experiment.c.owner == owner)
    if text:
        statement = statement.where(
            experiment.c.name.icontains(text, autoescape=True)
            | experiment.c.toolchain.icontains(text, autoescape=True)
        )
    return statement


async def summaries(session: AsyncSession, ids: Collection[UUID]) -> Sequence[Any]:
    """Return the summaries of experiments, whoever may see them."""
    return (await session.execute(select(*_SUMMARY_COLUMNS).where(experiment.c.id.in_(ids)))).all()


async def counts(session: AsyncSession, ids: Collection[UUID]) -> dict[UUID, dict[str, int]]:
    """Return for each experiment how many blocks are in each state."""
    found = await session.execute(
        select(block.c.experiment_id, block.c.state, func.count())
        .where(block.c.experiment_id.in_(ids))
        .group_by(block.c.experiment_id, block.c.state)
    )
    counted: dict[UUID, dict[str, int]] = {id_: {} for id_ in ids}
    for id_, state, number in found:
        counted[id_][state] = number
    return counted


async def get(session: AsyncSession, id_: UUID, viewer: Viewer, *, lock: bool = False) -> Any:
    """Return an experiment that the viewer may see."""
    statement = select(experiment).where(experiment.c.id == id_, visible(viewer))
    if lock:
        statement = statement.with_for_update(of=experiment)
    return (await session.execute(statement)).one_or_none()


async def name_taken(session: AsyncSession, owner: str, name: str) -> bool:
    """Whether the owner has an experiment of that name."""
    found = await session.scalar(
        select(experiment.c.id).where(experiment.c.owner == owner, experiment.c.name == name)
    )
    return found is not None


async def names_beginning(session: AsyncSession, owner: str, start: str) -> set[str]:
    """Return the names of the owner's experiments that begin so."""
    return set(
        await session.scalars(
            select(experiment.c.name).where(
                experiment.c.owner == owner, experiment.c.name.startswith(start, autoescape=True)
            )
        )
    )


async def add(session: AsyncSession, values: Mapping[str, Any]) -> None:
    """Write a new experiment."""
    await session.execute(insert(experiment).values(**values))


async def change(session: AsyncSession, id_: UUID, values: Mapping[str, Any]) -> None:
    """Write over columns of an experiment; its revision goes up."""
    await session.execute(
        update(experiment)
        .where(experiment.c.id == id_)
        .values(revision=experiment.c.revision + 1, **values)
    )


async def remove(session: AsyncSession, id_: UUID) -> None:
    """Delete an experiment with everything of its own; the cache stays."""
    await session.execute(delete(experiment).where(experiment.c.id == id_))


async def rights_held(session: AsyncSession, user: UUID, queues: Collection[UUID]) -> Sequence[Any]:
    """Return the rights that the scheduler holds for the user on some queues."""
    return (
        await session.execute(
            select(held_right.c.queue_id, queue.c.name, held_right.c.slots, held_right.c.priority)
            .join(queue, queue.c.id == held_right.c.queue_id)
            .where(held_right.c.user_id == user, held_right.c.queue_id.in_(queues))
            .order_by(queue.c.name)
        )
    ).all()


# ---- blocks ----


async def blocks(session: AsyncSession, experiment_id: UUID) -> Sequence[Any]:
    """Return the blocks of an experiment, with queue name and newest attempt, in order."""
    newest = (
        select(attempt.c.block_id, func.max(attempt.c.number).label("attempt"))
        .where(attempt.c.experiment_id == experiment_id)
        .group_by(attempt.c.block_id)
        .subquery()
    )
    columns = [column for column in block.c if column.name != "job"]
    return (
        await session.execute(
            select(*columns, queue.c.name.label("queue"), newest.c.attempt)
            .join(queue, queue.c.id == block.c.queue_id)
            .outerjoin(newest, newest.c.block_id == block.c.id)
            .where(block.c.experiment_id == experiment_id)
            .order_by(block.c.position)
        )
    ).all()


async def block_named(session: AsyncSession, experiment_id: UUID, name: str) -> Any:
    """Return a block, with the name of its queue."""
    return (
        await session.execute(
            select(block, queue.c.name.label("queue"))
            .join(queue, queue.c.id == block.c.queue_id)
            .where(block.c.experiment_id == experiment_id, block.c.name == name)
        )
    ).one_or_none()


async def block_ids(session: AsyncSession, experiment_id: UUID) -> dict[str, UUID]:
    """Return name -> id of an experiment's blocks."""
    found = await session.execute(
        select(block.c.name, block.c.id).where(block.c.experiment_id == experiment_id)
    )
    return {row.name: row.id for row in found}


async def add_blocks(session: AsyncSession, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write new blocks."""
    await session.execute(insert(block), list(rows))


async def remove_blocks(session: AsyncSession, experiment_id: UUID) -> None:
    """Delete the blocks of an experiment, with their attempts and logs."""
    await session.execute(delete(block).where(block.c.experiment_id == experiment_id))


async def reset_blocks(session: AsyncSession, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write over blocks, by `id`, what a new run plans; all else is as before any run."""
    fresh = {
        "state": "blocked",
        "reason": None,
        "failure": None,
        "progress": None,
        "worker": None,
        "queued_at": None,
        "started_at": None,
        "finished_at": None,
        "statistics": None,
        "results": None,
    }
    planned = [{("b_id" if k == "id" else k): v for k, v in row.items()} for row in rows]
    names = [name for name in planned[0] if name != "b_id"]
    connection = await session.connection()
    await connection.execute(
        update(block)
        .where(block.c.id == bindparam("b_id"))
        .values({**{name: bindparam(name) for name in names}, **fresh}),
        planned,
    )


async def attempt_numbers(session: AsyncSession, experiment_id: UUID) -> dict[UUID, int]:
    """Return for each block that was tried the number of its newest attempt."""
    found = await session.execute(
        select(attempt.c.block_id, func.max(attempt.c.number))
        .where(attempt.c.experiment_id == experiment_id)
        .group_by(attempt.c.block_id)
    )
    return {row[0]: row[1] for row in found}


async def attempts(session: AsyncSession, block_id: UUID) -> Sequence[Any]:
    """Return the attempts at a block, newest first."""
    return (
        await session.execute(
            select(attempt)
            .where(attempt.c.block_id == block_id)
            .order_by(attempt.c.number.desc(), attempt.c.index)
            .limit(1000)
        )
    ).all()


async def outputs(session: AsyncSession, key: str) -> Sequence[Any]:
    """Return name, rows and size of each output under a key."""
    return (
        await session.execute(
            select(
                cache_part.c.output,
                func.sum(cache_part.c.rows).label("rows"),
                func.sum(cache_part.c.size).label("size"),
            )
            .where(cache_part.c.key == key)
            .group_by(cache_part.c.output)
            .order_by(cache_part.c.output)
        )
    ).all()


async def results_of(session: AsyncSession, experiment_id: UUID) -> Sequence[Any]:
    """Return name and results of each analyzer, from its row or else from the cache."""
    return (
        await session.execute(
            select(
                block.c.name,
                func.coalesce(block.c.results, cache_entry.c.results).label("results"),
            )
            .outerjoin(cache_entry, cache_entry.c.key == block.c.key)
            .where(
                block.c.experiment_id == experiment_id,
                block.c.kind == "analyzer",
                block.c.state.in_(("done", "cached")),
            )
            .order_by(block.c.position)
        )
    ).all()


# ---- logs ----


async def attempt_of(session: AsyncSession, block_id: UUID, attempt_id: str | None) -> Any:
    """Return an attempt at a block; without an id, the newest that began last."""
    statement = select(attempt.c.id, attempt.c.ended_at).where(attempt.c.block_id == block_id)
    if attempt_id is not None:
        statement = statement.where(attempt.c.id == attempt_id)
    newest = statement.order_by(attempt.c.leased_at.desc(), attempt.c.number.desc()).limit(1)
    return (await session.execute(newest)).one_or_none()


async def log_after(
    session: AsyncSession, attempt_id: str, offset: int, limit: int
) -> Sequence[Any]:
    """Return pieces of a log that reach beyond `offset`, in order."""
    return (
        await session.execute(
            select(log_chunk.c.start, log_chunk.c.stream, log_chunk.c.text)
            .where(
                log_chunk.c.attempt_id == attempt_id,
                log_chunk.c.start + func.length(log_chunk.c.text) > offset,
            )
            .order_by(log_chunk.c.start)
            .limit(limit)
        )
    ).all()


# ---- what experiments name ----

Triple = tuple[str, str, int]


async def versions(
    session: AsyncSession, kind: str, refs: Collection[Triple], viewer: Viewer | None = None
) -> Sequence[Any]:
    """Return versions under owner, name, version; with a viewer, those that may be seen."""
    table = VERSIONED[kind]
    columns = tuple_(table.c.owner, table.c.name, table.c.version)
    statement = select(table).where(columns.in_(list(refs)))
    if viewer is not None:
        statement = statement.where(visible_in(table, kind, viewer))
    found = await session.execute(statement)
    return found.all()


async def databases(
    session: AsyncSession, refs: Collection[tuple[str, int]], viewer: Viewer
) -> Sequence[Any]:
    """Return databases under name, version that the viewer may see."""
    columns = tuple_(database.c.name, database.c.version)
    found = await session.execute(
        select(database).where(columns.in_(list(refs)), visible_in(database, "database", viewer))
    )
    return found.all()


async def database_files(session: AsyncSession, ids: Collection[UUID]) -> dict[UUID, list[Any]]:
    """Return the files of databases, by path."""
    found = await session.execute(
        select(database_file)
        .where(database_file.c.database_id.in_(ids))
        .order_by(database_file.c.database_id, database_file.c.path)
    )
    files: dict[UUID, list[Any]] = {id_: [] for id_ in ids}
    for row in found:
        files[row.database_id].append(row)
    return files


async def freeze(session: AsyncSession, kind: str, ids: Collection[UUID], now: datetime) -> None:
    """Fix versions for good, now that an experiment uses them."""
    table = VERSIONED[kind]
    await session.execute(
        update(table)
        .where(table.c.id.in_(list(ids)), table.c.frozen_at.is_(None))
        .values(frozen_at=now)
    )


async def freeze_toolchain(session: AsyncSession, ref: Triple, now: datetime) -> None:
    """Fix a toolchain for good, where it is still there."""
    columns = tuple_(toolchain.c.owner, toolchain.c.name, toolchain.c.version)
    await session.execute(
        update(toolchain)
        .where(columns == tuple_(*ref), toolchain.c.frozen_at.is_(None))
        .values(frozen_at=now)
    )


async def block_states(session: AsyncSession, experiment_id: UUID) -> dict[str, str]:
    """Return name -> state of an experiment's blocks."""
    found = await session.execute(
        select(block.c.name, block.c.state).where(block.c.experiment_id == experiment_id)
    )
    return {row.name: row.state for row in found}


async def begin_run(session: AsyncSession, id_: UUID, now: datetime, last_seq: int) -> None:
    """Note that an experiment was submitted once more; its state is the scheduler's to set."""
    await session.execute(
        update(experiment)
        .where(experiment.c.id == id_)
        .values(
            run=experiment.c.run + 1,
            submitted_at=now,
            started_at=None,
            finished_at=None,
            last_seq=last_seq,
        )
    )


async def queues_of(session: AsyncSession, id_: UUID) -> set[UUID]:
    """Return the queues that the blocks of an experiment are to run on."""
    return set(
        await session.scalars(
            select(block.c.queue_id).where(block.c.experiment_id == id_).distinct()
        )
    )


async def content_hashes(
    session: AsyncSession, kind: str, ids: Collection[UUID]
) -> dict[UUID, str]:
    """Return the content hashes of versions by id."""
    table = VERSIONED[kind]
    found = await session.execute(
        select(table.c.id, table.c.content_hash).where(table.c.id.in_(list(ids)))
    )
    return {row.id: row.content_hash for row in found}


# ---- sharing ----


async def shared_with(session: AsyncSession, id_: UUID) -> list[UUID]:
    """Return the groups that an experiment is shared with."""
    found = await session.scalars(
        select(share.c.group_id).where(share.c.kind == "experiment", share.c.thing_id == id_)
    )
    return sorted(found)


async def share_with(session: AsyncSession, id_: UUID, groups: Collection[UUID]) -> None:
    """Share an experiment with exactly these groups."""
    await unshare(session, id_)
    rows = [{"kind": "experiment", "thing_id": id_, "group_id": group} for group in set(groups)]
    if rows:
        await session.execute(insert(share), rows)


async def unshare(session: AsyncSession, id_: UUID) -> None:
    """Share an experiment with nobody."""
    await session.execute(
        delete(share).where(share.c.kind == "experiment", share.c.thing_id == id_)
    )
