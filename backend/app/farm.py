"""The farm's configuration as the scheduler's events: read from the database, told after commit.

    …; await session.commit()
    await farm.tell(services, await farm.queues_set(session, [queue.id]))

Rights are told for those users alone whom the scheduler knows: who hold rights there, or have an
experiment that lives. Everybody else's are computed when they submit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import func, select, union
from sqlalchemy.ext.asyncio import AsyncSession

from backend.app.db import core
from backend.app.services import Services
from backend.scheduler.core import experiments, rights
from backend.scheduler.core.events import Event, QueueSet, RightsSet, WorkerSet
from backend.scheduler.core.model import Environment, Queue, Right, Worker, WorkerState

#: So many users' rights are told at once; a change for all of `default` is several batches.
_BATCH = 500


async def tell(services: Services, events: Sequence[Event]) -> None:
    """Tell the scheduler; what it says about them is logged by it."""
    for start in range(0, len(events), _BATCH):
        await services.scheduler.handle(*events[start : start + _BATCH])


async def queues_set(session: AsyncSession, ids: Collection[UUID]) -> list[Event]:
    """Return the queues as they are now."""
    query = select(core.queue).where(core.queue.c.id.in_(ids)).order_by(core.queue.c.id)
    rows = (await session.execute(query)).all()
    offered = await _offered_environments(session, ids)
    return [QueueSet(queue=_queue(row, offered.get(row.id, frozenset()))) for row in rows]


def _queue(row: Any, offered: frozenset[Environment]) -> Queue:
    return Queue(
        id=str(row.id),
        name=row.name,
        memory_mb=row.memory_mb,
        time_seconds=row.time_limit_seconds,
        slots_per_worker=row.slots_per_worker,
        cores_per_slot=row.cores_per_slot,
        environments=offered,
    )


async def _offered_environments(
    session: AsyncSession, queues: Collection[UUID]
) -> dict[UUID, frozenset[Environment]]:
    link, environment = core.queue_environment, core.environment
    query = (
        select(link.c.queue_id, environment.c.name, environment.c.version)
        .join(environment, environment.c.id == link.c.environment_id)
        .where(link.c.queue_id.in_(queues))
    )
    return _grouped((row[0], (row[1], row[2])) for row in await session.execute(query))


def _grouped(
    pairs: Iterable[tuple[UUID, Environment]],
) -> dict[UUID, frozenset[Environment]]:
    grouped: dict[UUID, set[Environment]] = {}
    for key, value in pairs:
        grouped.setdefault(key, set()).add(value)
    return {key: frozenset(values) for key, values in grouped.items()}


async def workers_set(
    session: AsyncSession, ids: Collection[UUID], *, state: WorkerState | None = None
) -> list[Event]:
    """Return the workers as they are now, or as they shall be: in another state."""
    query = select(core.worker).where(core.worker.c.id.in_(ids)).order_by(core.worker.c.id)
    rows = (await session.execute(query)).all()
    found, shares = core.worker_environment, core.slot_share
    environments = _grouped(
        (row.worker_id, (row.name, row.version))
        for row in await session.execute(select(found).where(found.c.worker_id.in_(ids)))
    )
    given: dict[UUID, dict[str, int]] = {}
    for row in await session.execute(select(shares).where(shares.c.worker_id.in_(ids))):
        given.setdefault(row.worker_id, {})[str(row.queue_id)] = row.slots
    return [
        WorkerSet(
            worker=Worker(
                id=str(row.id),
                name=row.name,
                cores=row.cores,
                memory_mb=row.memory_mb,
                environments=environments.get(row.id, frozenset()),
                state=state or WorkerState(row.state),
                shares=given.get(row.id, {}),
            )
        )
        for row in rows
    ]


# ---- rights -------------------------------------------------------------------------------


async def known_users(session: AsyncSession, among: Collection[UUID] | None = None) -> list[UUID]:
    """Return the users whom the scheduler knows, in order."""
    held, experiment = core.held_right, core.experiment
    known = union(
        select(held.c.user_id),
        select(experiment.c.owner_id).where(
            experiment.c.state.in_([state.value for state in experiments.LIVE])
        ),
    ).subquery()
    query = select(known.c[0]).order_by(known.c[0])
    if among is not None:
        query = query.where(known.c[0].in_(among))
    return list(await session.scalars(query))


async def rights_set(session: AsyncSession, among: Collection[UUID] | None = None) -> list[Event]:
    """Return the rights, as they are now, of those users whom the scheduler knows."""
    users = await known_users(session, among)
    by_user = await rights_of(session, users)
    return [RightsSet(user=str(user), rights=by_user[user]) for user in users]


async def rights_of(session: AsyncSession, users: Collection[UUID]) -> dict[UUID, dict[str, Right]]:
    """Return what each user may hold, by queue id; queues without a right are left out."""
    account, member, right = core.user_account, core.group_member, core.group_queue_right
    reputations = {
        row.id: row.reputation
        for row in await session.execute(
            select(account.c.id, account.c.reputation).where(account.c.id.in_(users))
        )
    }
    query = (
        select(member.c.user_id, right.c.queue_id, right.c.slots, right.c.priority)
        .join(right, right.c.group_id == member.c.group_id)
        .where(member.c.user_id.in_(users))
    )
    given: dict[UUID, dict[str, list[Right]]] = {user: {} for user in users}
    for user, queue, slots, priority in await session.execute(query):
        of_queue = given[user].setdefault(str(queue), [])
        of_queue.append(Right(slots=slots, priority=priority))
    totals = await slots_in_all(session)
    return {
        user: rights.held(given[user], reputations.get(user, rights.NEUTRAL), totals)
        for user in users
    }


async def slots_in_all(session: AsyncSession) -> dict[str, int]:
    """Return the slots of every queue over all workers, by queue id."""
    queue, worker, share = core.queue, core.worker, core.slot_share
    slots: Any = func.coalesce(share.c.slots, queue.c.slots_per_worker)
    query = (
        select(queue.c.id, func.sum(slots))
        .select_from(queue)
        .join(worker, worker.c.id.is_not(None))
        .outerjoin(share, (share.c.queue_id == queue.c.id) & (share.c.worker_id == worker.c.id))
        .group_by(queue.c.id)
    )
    return {str(queue_id): int(total) for queue_id, total in await session.execute(query)}
