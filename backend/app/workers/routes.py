"""Endpoints of workers, for administrators; what workers themselves call is in worker_api."""

from __future__ import annotations

from uuid import UUID

from fastapi import Response
from sqlalchemy import select
from sqlmodel import col

from backend.app import pages
from backend.app.auth.actors import Admin
from backend.app.clock import Now
from backend.app.db.sessions import ReadSession, WriteSession
from backend.app.db.tables import Worker, WorkerCredential
from backend.app.etags import IfMatch, tagged
from backend.app.pages import Page, Part
from backend.app.routing import api_router
from backend.app.services import TheServices
from backend.app.workers import queries, service
from backend.app.workers.schemas import (
    MadeWorkerCredential,
    NewWorkerCredential,
    WorkerCredentialView,
    WorkerView,
)

router = api_router("workers")


@router.get("/workers")
async def list_workers(_admin: Admin, session: ReadSession, part: Part) -> Page[WorkerView]:
    """List workers by name."""
    rows, cursor = await pages.page(session, select(Worker), [col(Worker.name)], part)
    return Page(items=await queries.views(session, rows), next=cursor)


@router.get("/workers/{worker_id}")
async def get_worker(
    worker_id: UUID, _admin: Admin, session: ReadSession, response: Response
) -> WorkerView:
    """Show a worker."""
    return tagged(response, await service.worker(session, worker_id))


@router.post("/workers/{worker_id}/drain")
async def drain_worker(
    worker_id: UUID,
    actor: Admin,
    session: WriteSession,
    services: TheServices,
    now: Now,
    response: Response,
) -> WorkerView:
    """Give a worker nothing new; what it runs goes on to its end."""
    return tagged(response, await service.drain(session, services, actor, worker_id, now))


@router.post("/workers/{worker_id}/resume")
async def resume_worker(
    worker_id: UUID,
    actor: Admin,
    session: WriteSession,
    services: TheServices,
    now: Now,
    response: Response,
) -> WorkerView:
    """Give a draining worker new work again."""
    return tagged(response, await service.resume(session, services, actor, worker_id, now))


@router.delete("/workers/{worker_id}", status_code=204)
async def delete_worker(
    worker_id: UUID,
    actor: Admin,
    session: WriteSession,
    services: TheServices,
    now: Now,
    if_match: IfMatch = None,
) -> None:
    """Forget a worker that is gone."""
    await service.delete_worker(session, services, actor, worker_id, if_match, now)


@router.get("/worker-credentials")
async def list_worker_credentials(
    _admin: Admin, session: ReadSession, part: Part
) -> Page[WorkerCredentialView]:
    """List the credentials of workers, the newest first; secrets are not kept."""
    columns = [col(WorkerCredential.id)]
    query = select(WorkerCredential)
    return await pages.listed(session, query, columns, part, _view, descending=True)


@router.post("/worker-credentials", status_code=201)
async def create_worker_credential(
    body: NewWorkerCredential, actor: Admin, session: WriteSession, now: Now
) -> MadeWorkerCredential:
    """Make a credential for a worker's name; its secret is shown this once."""
    made, secret = await service.create_credential(session, actor, body, now)
    return MadeWorkerCredential(**_view(made).model_dump(), token=secret)


@router.delete("/worker-credentials/{credential_id}", status_code=204)
async def delete_worker_credential(
    credential_id: UUID, actor: Admin, session: WriteSession, services: TheServices, now: Now
) -> None:
    """Revoke a credential; with the last one of its name, the worker loses its jobs."""
    await service.revoke_credential(session, services, actor, credential_id, now)


def _view(row: WorkerCredential) -> WorkerCredentialView:
    return WorkerCredentialView.model_validate(row, from_attributes=True)
