"""The long poll: what a worker is to do, as soon as there is something."""

from __future__ import annotations

from backend.app.auth.actors import WorkerActor
from backend.app.cache import service as cache
from backend.app.services import Services
from backend.app.worker_api import assignments, registration, schemas
from backend.app.worker_api.assignments import Lacking
from backend.scheduler.core.events import CacheLost, Event, Finished, Outcome
from backend.scheduler.core.model import Failure, FailureKind, WorkerState
from gristmill.protocol import Assignment

LONGEST_WAIT = 30.0  #: seconds


async def poll(services: Services, worker: WorkerActor, said: schemas.Poll) -> schemas.PollReply:
    """Wait for work without a database connection, then make assignments of the leases."""
    async with services.background() as session:
        await registration.in_force(session, services, worker, said.session)
    work = await services.scheduler.next_work(
        str(worker.id), said.running, min(said.wait, LONGEST_WAIT)
    )
    async with services.background() as session:
        # again: while this process waited, another may have registered under the name
        standing = await registration.in_force(session, services, worker, said.session)
        made = await assignments.build(session, services.cache, services.files, work.leases)
    await _give_up(services, str(worker.id), [one for one in made if isinstance(one, Lacking)])
    ready = [one for one in made if isinstance(one, Assignment)]
    return schemas.PollReply.of(ready, work.cancel, standing.state is WorkerState.DRAINING)


async def _give_up(services: Services, worker: str, lacking: list[Lacking]) -> None:
    """End attempts that cannot even begin; entries with lost files leave the cache."""
    if not lacking:
        return
    keys = frozenset[str]().union(*(one.keys for one in lacking))
    if keys:
        await cache.drop(services.background, services.cache, keys)
    ended: list[Event] = [
        Finished(
            attempt=one.attempt,
            worker=worker,
            outcome=Outcome.FAILED,
            failure=Failure(kind=FailureKind.WORKER, message=one.message),
        )
        for one in lacking
    ]
    await services.scheduler.handle(*ended, CacheLost(keys=keys))
