"""Making, changing and deleting queues and slot shares; the scheduler hears of each change.

Lowering a number stops nothing that runs: nothing new starts until there is room again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from backend.app import etags, farm, problems
from backend.app.audit.service import record
from backend.app.auth.actors import Actor
from backend.app.conflicts import flush_deleted, flush_unique, in_use, there
from backend.app.db.tables import Queue, User, Worker
from backend.app.queues import queries
from backend.app.queues.queries import Given
from backend.app.queues.schemas import (
    NewQueue,
    QueueChange,
    QueueView,
    SlotShareChange,
    SlotShareView,
    UsableQueue,
)
from backend.app.services import Services
from backend.scheduler.core import rights
from backend.scheduler.core.events import QueueRemoved
from backend.scheduler.core.model import Right


async def create_queue(
    session: AsyncSession, services: Services, actor: Actor, wanted: NewQueue, now: datetime
) -> QueueView:
    """Make a queue; raises Invalid for unknown environments, Conflict when the name is taken."""
    ids = wanted.environment_ids
    default = wanted.default_environment_id or ids[0]
    await _check_environments(session, ids, default)
    values = wanted.model_dump(exclude={"environment_ids", "default_environment_id"})
    queue = Queue(**values, default_environment_id=default, created_at=now)
    session.add(queue)
    await flush_unique(session, "/name", f"there is a queue {wanted.name!r} already")
    await queries.offer(session, queue.id, ids)
    view = await _view(session, queue)
    record(session, actor, "create_queue", f"queue {queue.name}", now, after=view)
    await session.commit()
    await farm.tell(services, await farm.queues_set(session, [queue.id]))
    return view


async def _check_environments(session: AsyncSession, ids: Sequence[UUID], default: UUID) -> None:
    known = await queries.known_environments(session, ids)
    for index, id_ in enumerate(ids):
        if id_ not in known:
            raise problems.invalid(
                f"/environment_ids/{index}", "there is no environment with this id", "unknown"
            )
    if default not in ids:
        raise problems.invalid(
            "/default_environment_id", "this is not among environment_ids", "not_offered"
        )


async def _view(session: AsyncSession, queue: Queue) -> QueueView:
    return (await queries.views(session, [queue]))[0]


async def queue(session: AsyncSession, queue_id: UUID) -> QueueView:
    """Return a queue; raises NotFound."""
    return await _view(session, there(await session.get(Queue, queue_id), "queue"))


async def update_queue(
    session: AsyncSession,
    services: Services,
    actor: Actor,
    queue_id: UUID,
    change: QueueChange,
    if_match: str | None,
    now: datetime,
) -> QueueView:
    """Change a queue; holds from the next pass of the scheduler."""
    found = there(await session.get(Queue, queue_id, with_for_update=True), "queue")
    etags.require(if_match, found.revision)
    before = await _view(session, found)
    values = change.model_dump(exclude_unset=True)
    offered = [environment.id for environment in before.environments]
    ids = values.pop("environment_ids", offered)
    default = values.get("default_environment_id", found.default_environment_id)
    await _check_environments(session, ids, default)
    await _refuse_taking_away(session, found, set(offered) - set(ids))
    for name, value in values.items():
        setattr(found, name, value)
    found.revision += 1
    await flush_unique(session, "/name", f"there is a queue {found.name!r} already")
    await queries.offer(session, queue_id, ids)
    after = await _view(session, found)
    record(session, actor, "update_queue", f"queue {before.name}", now, before=before, after=after)
    await session.commit()
    await _tell(session, services, queue_id, values)
    return after


async def _refuse_taking_away(session: AsyncSession, queue: Queue, gone: set[UUID]) -> None:
    users = await queries.users_of_environments(session, queue.id, gone) if gone else []
    if users:
        raise in_use(f"experiments run in environments taken from queue {queue.name!r}", users)


async def _tell(
    session: AsyncSession, services: Services, queue_id: UUID, values: dict[str, Any]
) -> None:
    events = await farm.queues_set(session, [queue_id])
    if "slots_per_worker" in values:  # rights are capped at the queue's slots over all workers
        events += await farm.rights_set(session)
    await farm.tell(services, events)


async def delete_queue(
    session: AsyncSession,
    services: Services,
    actor: Actor,
    queue_id: UUID,
    if_match: str | None,
    now: datetime,
) -> None:
    """Delete a queue that no experiment names; raises InUse with those that do."""
    found = there(await session.get(Queue, queue_id, with_for_update=True), "queue")
    etags.require(if_match, found.revision)
    detail = (
        f"queue {found.name!r} is in use: to drain it, set its slots_per_worker to 0; "
        "it can be deleted when these experiments are"
    )
    if users := await queries.experiments_on(session, queue_id):
        raise in_use(detail, users)
    before = await _view(session, found)
    record(session, actor, "delete_queue", f"queue {found.name}", now, before=before)
    await session.delete(found)
    await flush_deleted(session, detail)
    await session.commit()
    rest = await farm.rights_set(session)
    await farm.tell(services, [QueueRemoved(queue=str(queue_id)), *rest])


# ---- what a user may use ------------------------------------------------------------------


async def usable_queues(session: AsyncSession, actor: Actor) -> list[UsableQueue]:
    """Return the queues on which somebody has a right to at least one slot, by name."""
    user = await session.get_one(User, actor.id)
    given: dict[UUID, list[Given]] = {}
    for right in await queries.given_to(session, actor.id):
        given.setdefault(right.queue_id, []).append(right)
    totals = await farm.slots_in_all(session)
    held = rights.held(
        {str(queue): [_right(one) for one in of] for queue, of in given.items()},
        user.reputation,
        totals,
    )
    ids = [UUID(queue) for queue in held]
    shown = await _queues(session, ids)
    waiting, running = await queries.waiting(session, ids), await queries.running(session, ids)
    return [
        UsableQueue(
            **view.model_dump(exclude={"default_environment_id"}),
            default_environment=view.default_environment_id,
            slots=held[str(view.id)].slots,
            priority=held[str(view.id)].priority,
            **_sources(given[view.id]),
            reputation=user.reputation,
            total_slots=totals.get(str(view.id), 0),
            waiting=waiting.get(view.id, 0),
            running=running.get(view.id, 0),
        )
        for view in shown
    ]


def _right(given: Given) -> Right:
    return Right(slots=given.slots, priority=given.priority)


def _sources(given: Sequence[Given]) -> dict[str, Any]:
    slots = max(given, key=lambda right: right.slots)
    priority = max(given, key=lambda right: right.priority)
    return {
        "base_slots": slots.slots,
        "slots_from": slots.group,
        "priority_from": priority.group,
    }


async def _queues(session: AsyncSession, ids: Sequence[UUID]) -> list[QueueView]:
    found = [await session.get_one(Queue, id_) for id_ in ids]
    return await queries.views(session, sorted(found, key=lambda queue: queue.name))


# ---- slot shares --------------------------------------------------------------------------


async def set_share(
    session: AsyncSession,
    services: Services,
    actor: Actor,
    queue_id: UUID,
    worker_id: UUID,
    change: SlotShareChange,
    now: datetime,
) -> SlotShareView:
    """Give a queue so many slots on one worker."""
    found = there(await session.get(Queue, queue_id), "queue")
    worker = there(await session.get(Worker, worker_id), "worker")
    before = await queries.share(session, queue_id, worker_id)
    await queries.set_share(session, queue_id, worker_id, change.slots)
    after = SlotShareView(
        queue_id=queue_id,
        queue=found.name,
        worker_id=worker_id,
        worker=worker.name,
        slots=change.slots,
    )
    thing = f"slots of {found.name} on {worker.name}"
    record(session, actor, "set_slot_share", thing, now, before=before, after=after)
    await session.commit()
    await _tell_share(session, services, worker_id)
    return after


async def _tell_share(session: AsyncSession, services: Services, worker_id: UUID) -> None:
    events = await farm.workers_set(session, [worker_id])
    await farm.tell(services, events + await farm.rights_set(session))


async def delete_share(
    session: AsyncSession,
    services: Services,
    actor: Actor,
    queue_id: UUID,
    worker_id: UUID,
    now: datetime,
) -> None:
    """Take a slot share back: the queue's own number holds on that worker again."""
    before = await queries.share(session, queue_id, worker_id)
    if before is None:
        raise problems.NotFound("this queue has no slot share on this worker")
    await queries.remove_share(session, queue_id, worker_id)
    thing = f"slots of {before.queue} on {before.worker}"
    record(session, actor, "delete_slot_share", thing, now, before=before)
    await session.commit()
    await _tell_share(session, services, worker_id)
