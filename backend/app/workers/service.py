"""What administrators do with workers: drain, resume, delete, give and revoke credentials."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from backend.app import etags, farm, problems
from backend.app.audit.service import record
from backend.app.auth import opaque
from backend.app.auth.actors import Actor
from backend.app.auth.opaque import Kind
from backend.app.conflicts import in_use, there
from backend.app.db.tables import Worker, WorkerCredential
from backend.app.services import Services
from backend.app.workers import queries
from backend.app.workers.schemas import NewWorkerCredential, WorkerCredentialView, WorkerView
from backend.scheduler.core.events import WorkerLost, WorkerRemoved
from backend.scheduler.core.model import WorkerState

GONE = frozenset({WorkerState.OFFLINE, WorkerState.LOST})


async def worker(session: AsyncSession, worker_id: UUID) -> WorkerView:
    """Return a worker; raises NotFound."""
    return await _view(session, there(await session.get(Worker, worker_id), "worker"))


async def _view(session: AsyncSession, found: Worker) -> WorkerView:
    return (await queries.views(session, [found]))[0]


async def drain(
    session: AsyncSession, services: Services, actor: Actor, worker_id: UUID, now: datetime
) -> WorkerView:
    """Give a worker nothing new; what it runs goes on. Raises Conflict when it is not here."""
    return await _turn(session, services, actor, worker_id, now, WorkerState.DRAINING)


async def resume(
    session: AsyncSession, services: Services, actor: Actor, worker_id: UUID, now: datetime
) -> WorkerView:
    """Give a draining worker new work again. Raises Conflict when it is not here."""
    return await _turn(session, services, actor, worker_id, now, WorkerState.ONLINE)


async def _turn(
    session: AsyncSession,
    services: Services,
    actor: Actor,
    worker_id: UUID,
    now: datetime,
    state: WorkerState,
) -> WorkerView:
    """The scheduler owns the state: it is told, and writes the row."""
    found = there(await session.get(Worker, worker_id), "worker")
    if found.state in GONE:
        raise problems.Conflict(f"worker {found.name!r} is {found.state}", code="worker_gone")
    if found.state != state:
        action = "drain_worker" if state is WorkerState.DRAINING else "resume_worker"
        change = {"before": {"state": found.state}, "after": {"state": state.value}}
        record(session, actor, action, f"worker {found.name}", now, **change)
        await session.commit()
        await farm.tell(services, await farm.workers_set(session, [worker_id], state=state))
        await session.refresh(found)
    return await _view(session, found)


async def delete_worker(
    session: AsyncSession,
    services: Services,
    actor: Actor,
    worker_id: UUID,
    if_match: str | None,
    now: datetime,
) -> None:
    """Delete a worker that is gone and holds no job; raises InUse otherwise."""
    found = there(await queries.locked_worker(session, worker_id), "worker")
    etags.require(if_match, found.revision)
    jobs = await queries.jobs_on(session, worker_id)
    if jobs or found.state not in GONE:
        raise in_use(f"worker {found.name!r} is {found.state}: drain it and stop it first", jobs)
    before = await _view(session, found)
    record(session, actor, "delete_worker", f"worker {found.name}", now, before=before)
    await session.delete(found)
    await session.commit()
    rest = await farm.rights_set(session)  # they are capped at the slots over all workers
    await farm.tell(services, [WorkerRemoved(worker=str(worker_id)), *rest])


# ---- credentials --------------------------------------------------------------------------


async def create_credential(
    session: AsyncSession, actor: Actor, wanted: NewWorkerCredential, now: datetime
) -> tuple[WorkerCredential, str]:
    """Return a new credential of a worker's name, and its secret."""
    if wanted.expires_at is not None and wanted.expires_at <= now:
        raise problems.invalid("/expires_at", "this is in the past", "past")
    secret = opaque.make(Kind.WORKER)
    made = WorkerCredential(
        worker_name=wanted.worker_name,
        secret_hash=opaque.digest(secret),
        created_by=actor.username,
        created_at=now,
        expires_at=wanted.expires_at,
    )
    session.add(made)
    record(
        session,
        actor,
        "create_worker_credential",
        f"worker {wanted.worker_name}",
        now,
        after={"id": str(made.id), "expires_at": str(wanted.expires_at)},
    )
    await session.commit()
    return made, secret


async def revoke_credential(
    session: AsyncSession, services: Services, actor: Actor, credential_id: UUID, now: datetime
) -> None:
    """Revoke a credential: tokens that came of it die at once, and with the last one the leases."""
    found = there(
        await session.get(WorkerCredential, credential_id, with_for_update=True), "credential"
    )
    if found.revoked_at is not None:
        return
    found.revoked_at = now
    record(
        session,
        actor,
        "delete_worker_credential",
        f"worker {found.worker_name}",
        now,
        before=WorkerCredentialView.model_validate(found, from_attributes=True),
    )
    await session.commit()
    services.revoked_credentials.add(credential_id)
    if not await queries.has_live_credential(session, found.worker_name, now):
        named = await queries.worker_named(session, found.worker_name)
        if named is not None:
            await farm.tell(services, [WorkerLost(worker=str(named.id))])
