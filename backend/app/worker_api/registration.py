"""A worker comes: who it is, what it has, what it still runs; an older process is fenced."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from uuid import UUID, uuid4

from sqlalchemy.ext.asyncio import AsyncSession

from backend.app import farm
from backend.app.auth.actors import WorkerActor, issue_worker_token
from backend.app.auth.queries import Credential
from backend.app.db.ids import uuid7
from backend.app.problems import Conflict, Forbidden, Invalid, Unauthenticated
from backend.app.services import Services
from backend.app.worker_api import queries, schemas
from backend.app.worker_api.queries import Standing
from backend.scheduler.core.events import Event, WorkerSet
from backend.scheduler.core.model import WorkerState
from backend.scheduler.loop import UnavailableError
from gristmill import protocol


async def register(
    session: AsyncSession,
    services: Services,
    credential: Credential,
    said: schemas.Register,
    now: datetime,
) -> schemas.Registered:
    """Take a worker in. Its leases that it no longer runs are fenced, and run again."""
    _check(credential, said)
    require_scheduler(services)
    shared = said.cache_nonce is not None and await asyncio.to_thread(
        services.cache.read_proof, said.cache_nonce
    )
    registration = uuid4()
    worker = await _write(session, said, registration, shared, now)
    events = await farm.workers_set(session, [worker])
    totals = await farm.rights_set(session)
    await session.commit()
    registered = [_with_running(event, said.running) for event in events]
    services.scheduler.heard(str(worker))
    await services.scheduler.handle(*registered, *totals)
    token, seconds = issue_worker_token(
        services,
        worker=worker,
        name=said.name,
        session=registration,
        credential=credential.id,
        now=now,
    )
    return schemas.Registered(
        worker=str(worker),
        session=str(registration),
        token=token,
        token_seconds=seconds,
        heartbeat_seconds=services.settings.heartbeat_seconds,
        lease_seconds=services.settings.lease_seconds,
        shared_cache=shared,
        forget=services.scheduler.cancels(str(worker), said.running),
    )


def _with_running(event: Event, running: Iterable[str]) -> Event:
    """Tell the scheduler what survived: what did not counts as lost, so nothing loops for ever."""
    if isinstance(event, WorkerSet):
        return replace(event, running=frozenset(running))
    return event


def _check(credential: Credential, said: schemas.Register) -> None:
    if credential.worker_name != said.name:
        raise Forbidden(
            f"this credential is for a worker named {credential.worker_name!r}, not "
            f"{said.name!r}: set the worker's name, or ask for a credential of its own",
            code="worker_name",
        )
    if said.protocol != protocol.VERSION:
        raise Invalid(
            f"the worker speaks version {said.protocol} of the protocol, this server version "
            f"{protocol.VERSION}: install the same release on both",
            code="protocol",
        )


async def _write(
    session: AsyncSession,
    said: schemas.Register,
    registration: UUID,
    shared: bool,
    now: datetime,
) -> UUID:
    fields = ("name", "host", "cores", "memory_mb", "executor", "sandbox", "limits", "version")
    worker = await queries.put_worker(
        session,
        {
            "id": uuid7(),
            "created_at": now,
            "revision": 1,
            "session": registration,
            "shares_cache": shared,
            "last_seen": now,
            **{name: getattr(said, name) for name in fields},
        },
    )
    await queries.put_environments(session, worker, said.environments)
    return worker


def require_scheduler(services: Services) -> None:
    """Raise UnavailableError while this process does not schedule.

    It knows of no leases then, and must not take them for lost: a worker would kill its jobs.
    """
    if not services.scheduler.ready:
        raise UnavailableError


async def in_force(
    session: AsyncSession, services: Services, worker: WorkerActor, given: str
) -> Standing:
    """Return the registration that a worker speaks under; raises when it is not in force."""
    require_scheduler(services)
    found = await queries.standing(session, worker.id)
    if found is None:
        raise Unauthenticated("this worker was deleted; register again", code="unknown_worker")
    if found.session != worker.session or str(found.session) != given:
        raise Conflict(
            "another process has registered under this worker's name: this one must stop its jobs",
            code="fenced",
        )
    return found


async def beat(
    session: AsyncSession,
    services: Services,
    worker: WorkerActor,
    said: schemas.Heartbeat,
    now: datetime,
) -> schemas.HeartbeatReply:
    """Take a heartbeat."""
    standing = await in_force(session, services, worker, said.session)
    services.scheduler.heard(str(worker.id))
    wanted = _wanted_state(standing.state, said)
    if wanted is not standing.state:
        events = await farm.workers_set(session, [worker.id], state=wanted)
        await session.rollback()
        await services.scheduler.handle(*events)
    token, seconds = issue_worker_token(
        services,
        worker=worker.id,
        name=worker.name,
        session=worker.session,
        credential=worker.credential,
        now=now,
    )
    return schemas.HeartbeatReply(
        token=token,
        token_seconds=seconds,
        cancel=services.scheduler.cancels(str(worker.id), said.running),
        drain=wanted is WorkerState.DRAINING,
    )


def _wanted_state(state: WorkerState, said: schemas.Heartbeat) -> WorkerState:
    """A worker that drains by itself is offline when its last job is over."""
    if not said.draining:
        return state
    return WorkerState.DRAINING if said.running else WorkerState.OFFLINE
