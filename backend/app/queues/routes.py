"""Endpoints of queues and slot shares."""

from __future__ import annotations

from uuid import UUID

from fastapi import Response
from sqlalchemy import select
from sqlmodel import col

from backend.app import pages
from backend.app.auth.actors import Admin, CurrentUser
from backend.app.clock import Now
from backend.app.db.sessions import ReadSession, WriteSession
from backend.app.db.tables import Queue, SlotShare
from backend.app.etags import IfMatch, tagged
from backend.app.pages import Page, Part
from backend.app.queues import queries, service
from backend.app.queues.schemas import (
    NewQueue,
    QueueChange,
    QueueView,
    SlotShareChange,
    SlotShareView,
    UsableQueue,
)
from backend.app.routing import api_router
from backend.app.services import TheServices

router = api_router("queues")


@router.get("/me/queues")
async def list_usable_queues(actor: CurrentUser, session: ReadSession) -> list[UsableQueue]:
    """List the queues that you may use, with your right on each and where it comes from."""
    return await service.usable_queues(session, actor)


@router.get("/queues")
async def list_queues(_actor: CurrentUser, session: ReadSession, part: Part) -> Page[QueueView]:
    """List all queues by name."""
    rows, cursor = await pages.page(session, select(Queue), [col(Queue.name)], part)
    return Page(items=await queries.views(session, rows), next=cursor)


@router.post("/queues", status_code=201)
async def create_queue(
    body: NewQueue,
    actor: Admin,
    session: WriteSession,
    services: TheServices,
    now: Now,
    response: Response,
) -> QueueView:
    """Make a queue."""
    return tagged(response, await service.create_queue(session, services, actor, body, now))


@router.get("/queues/{queue_id}")
async def get_queue(
    queue_id: UUID, _actor: CurrentUser, session: ReadSession, response: Response
) -> QueueView:
    """Show a queue."""
    return tagged(response, await service.queue(session, queue_id))


@router.patch("/queues/{queue_id}")
async def update_queue(
    queue_id: UUID,
    body: QueueChange,
    actor: Admin,
    session: WriteSession,
    services: TheServices,
    now: Now,
    response: Response,
    if_match: IfMatch = None,
) -> QueueView:
    """Change a queue: limits hold for jobs that start from now on."""
    view = await service.update_queue(session, services, actor, queue_id, body, if_match, now)
    return tagged(response, view)


@router.delete("/queues/{queue_id}", status_code=204)
async def delete_queue(
    queue_id: UUID,
    actor: Admin,
    session: WriteSession,
    services: TheServices,
    now: Now,
    if_match: IfMatch = None,
) -> None:
    """Delete a queue that no experiment names."""
    await service.delete_queue(session, services, actor, queue_id, if_match, now)


@router.get("/slot-shares")
async def list_slot_shares(
    _admin: Admin,
    session: ReadSession,
    part: Part,
    queue_id: UUID | None = None,
    worker_id: UUID | None = None,
) -> Page[SlotShareView]:
    """List where queues have another number of slots than their own."""
    columns = [col(SlotShare.queue_id), col(SlotShare.worker_id)]
    query = queries.shares(queue_id, worker_id)
    return await pages.listed(session, query, columns, part, queries.share_view)


@router.put("/slot-shares/{queue_id}/{worker_id}")
async def set_slot_share(
    queue_id: UUID,
    worker_id: UUID,
    body: SlotShareChange,
    actor: Admin,
    session: WriteSession,
    services: TheServices,
    now: Now,
) -> SlotShareView:
    """Give a queue so many slots on one worker."""
    return await service.set_share(session, services, actor, queue_id, worker_id, body, now)


@router.delete("/slot-shares/{queue_id}/{worker_id}", status_code=204)
async def delete_slot_share(
    queue_id: UUID,
    worker_id: UUID,
    actor: Admin,
    session: WriteSession,
    services: TheServices,
    now: Now,
) -> None:
    """Take a slot share back; the queue's own number holds again."""
    await service.delete_share(session, services, actor, queue_id, worker_id, now)
