"""Endpoints of experiments."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Path, Query, Response
from starlette.responses import JSONResponse

from backend.app import etags, idempotency
from backend.app.auth.actors import CurrentUser
from backend.app.clock import Now
from backend.app.db.sessions import ReadSession, WriteSession
from backend.app.declarations.schemas import Sharing
from backend.app.etags import IfMatch
from backend.app.experiments import access, listing, lookups, schemas, service, telling, views
from backend.app.experiments.service import Running
from backend.app.pages import Part
from backend.app.routing import api_router
from backend.app.services import Services, TheServices
from backend.scheduler.core import experiments

router = api_router("experiments")

BlockName = Annotated[str, Path(min_length=1, max_length=200)]
Wait = Annotated[float, Query(ge=0, le=30, description="seconds to wait for something new")]
LARGEST = 2**63 - 1


def _running(services: Services) -> Running:
    return Running(scheduler=services.scheduler, hub=services.hub, locks=services.locks)


@router.post("/experiments", status_code=201, response_model=schemas.Experiment)
async def create_experiment(
    body: schemas.ExperimentIn,
    actor: CurrentUser,
    session: WriteSession,
    services: TheServices,
    now: Now,
    key: idempotency.Key = None,
) -> Response:
    """Make an experiment, a draft; what is wrong with it is told with its place."""
    async with services.submissions:
        keep = await idempotency.begin(session, actor.id, key, body, now)
        if keep.answer is not None:
            return JSONResponse(keep.answer, status_code=keep.status or 201)
        id_ = await service.create(session, actor, body, now)
        view = await views.experiment_of(session, actor, id_)
        await keep.answered(201, view)
        await session.commit()
    services.hub.note_change(str(id_))
    headers = {"ETag": etags.etag(view.revision)}
    return JSONResponse(view.model_dump(mode="json"), status_code=201, headers=headers)


@router.post("/experiments/validate")
async def validate_experiment(
    body: schemas.ExperimentIn, actor: CurrentUser, services: TheServices
) -> schemas.Validation:
    """Check an experiment as its creation would, and say which blocks the cache has."""
    async with services.submissions, services.sessions() as session:
        return await service.validate(session, actor, body)


@router.get("/experiments")
async def list_experiments(
    actor: CurrentUser,
    session: ReadSession,
    part: Part,
    state: experiments.State | None = None,
    owner: Annotated[str | None, Query(max_length=64)] = None,
    q: Annotated[str | None, Query(max_length=200, description="in name or toolchain")] = None,
) -> schemas.ExperimentList:
    """Return the experiments that one may see, newest first."""
    return await listing.page(session, actor, part, state=state, owner=owner, text=q)


@router.get("/experiments/{id}")
async def get_experiment(
    id: UUID, actor: CurrentUser, session: ReadSession, response: Response
) -> schemas.Experiment:
    """Return an experiment in full."""
    view = await views.experiment_of(session, actor, id)
    etags.put(response, view.revision)
    return view


@router.patch("/experiments/{id}")
async def update_experiment(
    id: UUID,
    body: schemas.ExperimentPatch,
    actor: CurrentUser,
    session: WriteSession,
    services: TheServices,
    response: Response,
    if_match: IfMatch = None,
) -> schemas.Experiment:
    """Change name, description, visibility, or (while nothing runs) the declaration."""
    row = await access.owned(session, actor, id, lock=True)
    etags.require(if_match, row.revision)
    await service.change(session, row, body)
    view = await views.experiment_of(session, actor, id)
    await session.commit()
    services.hub.note_change(str(id))
    if body.visibility is not None:
        services.hub.access_changed()
    etags.put(response, view.revision)
    return view


@router.put("/experiments/{id}/sharing")
async def share_experiment(
    id: UUID,
    body: Sharing,
    actor: CurrentUser,
    session: WriteSession,
    services: TheServices,
    now: Now,
    response: Response,
    if_match: IfMatch = None,
) -> schemas.Experiment:
    """Say who may see an experiment: its owner, some groups, or everybody who is signed in."""
    row = await access.owned(session, actor, id, lock=True)
    etags.require(if_match, row.revision)
    await service.set_sharing(session, actor, row, body, now)
    view = await views.experiment_of(session, actor, id)
    await session.commit()
    services.hub.note_change(str(id))
    services.hub.access_changed()
    etags.put(response, view.revision)
    return view


@router.delete("/experiments/{id}", status_code=204)
async def delete_experiment(
    id: UUID,
    actor: CurrentUser,
    session: WriteSession,
    services: TheServices,
    now: Now,
    if_match: IfMatch = None,
) -> None:
    """Delete an experiment; one that runs is `deleting` until nothing of it runs any more."""
    await service.delete(session, actor, id, if_match, _running(services), now)


@router.post("/experiments/{id}/start")
async def start_experiment(
    id: UUID, actor: CurrentUser, session: WriteSession, services: TheServices, now: Now
) -> schemas.Experiment:
    """Submit an experiment; what the cache has is not run again."""
    async with services.submissions:
        await service.start(session, actor, id, _running(services), now)
        return await views.experiment_of(session, actor, id)


@router.post("/experiments/{id}/stop")
async def stop_experiment(
    id: UUID, actor: CurrentUser, session: WriteSession, services: TheServices
) -> schemas.Experiment:
    """Stop an experiment: `cancelling` until every process of it is gone."""
    await service.stop(session, actor, id, _running(services))
    return await views.experiment_of(session, actor, id)


@router.post("/experiments/{id}/fork", status_code=201)
async def fork_experiment(
    id: UUID,
    actor: CurrentUser,
    session: WriteSession,
    services: TheServices,
    now: Now,
    response: Response,
    body: schemas.ForkIn | None = None,
) -> schemas.Experiment:
    """Copy an experiment into a draft of one's own."""
    async with services.submissions:
        fork = await service.fork(session, actor, id, body.name if body else None, now)
        view = await views.experiment_of(session, actor, fork)
        await session.commit()
    services.hub.note_change(str(fork))
    etags.put(response, view.revision)
    return view


@router.get("/experiments/{id}/snapshot")
async def get_experiment_snapshot(
    id: UUID, actor: CurrentUser, services: TheServices
) -> schemas.Snapshot:
    """Return everything that a page draws, as of one event."""
    return await lookups.snapshot(services.sessions, actor, id)


@router.get("/experiments/{id}/events")
async def list_experiment_events(
    id: UUID,
    actor: CurrentUser,
    services: TheServices,
    after: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
    wait: Wait = 0,
) -> schemas.EventPage:
    """Return events after a number; with none yet, wait for some (for clients without sockets)."""
    return await lookups.events_after(
        services.sessions, services.hub, actor, id, after=after, limit=limit, wait=wait
    )


@router.get("/experiments/{id}/results")
async def get_experiment_results(
    id: UUID, actor: CurrentUser, session: ReadSession
) -> schemas.Results:
    """Return what the analyzers found."""
    return await lookups.results(session, actor, id)


@router.get("/experiments/{id}/blocks/{name}")
async def get_block(
    id: UUID, name: BlockName, actor: CurrentUser, session: ReadSession, services: TheServices
) -> schemas.BlockDetail:
    """Return a block with parameters, attempts, outputs and why it waits."""

    def explain(row: Any) -> schemas.Explanation | None:
        return telling.explanation(services.scheduler, row)

    return await lookups.block_detail(session, actor, id, name, explain)


@router.get("/experiments/{id}/blocks/{name}/log")
async def get_block_log(
    id: UUID,
    name: BlockName,
    actor: CurrentUser,
    services: TheServices,
    attempt: Annotated[str | None, Query(max_length=80)] = None,
    offset: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
    wait: Wait = 0,
) -> schemas.LogPage:
    """Return the log of an attempt (the newest) from a character on; at its end, wait for more."""
    return await lookups.log(
        services.sessions,
        services.hub,
        actor,
        id,
        name,
        attempt=attempt,
        offset=offset,
        wait=wait,
    )


@router.get("/experiments/{id}/blocks/{name}/outputs/{output}")
async def preview_block_output(
    id: UUID,
    name: BlockName,
    output: Annotated[str, Path(min_length=1, max_length=200)],
    actor: CurrentUser,
    session: ReadSession,
    services: TheServices,
    offset: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> schemas.OutputPreview:
    """Return some data units of an output; long arrays and texts are cut."""
    return await lookups.preview(
        session, services.cache, actor, id, name, output, offset=offset, limit=limit
    )


@router.get("/experiments/{id}/blocks/{name}/explain")
async def explain_block(
    id: UUID, name: BlockName, actor: CurrentUser, session: ReadSession, services: TheServices
) -> schemas.Explanation:
    """Say why a block does not run."""
    row = await lookups.block(session, actor, id, name)
    return telling.explanation(services.scheduler, row) or telling.at_rest(row)


@router.get("/experiments/{id}/blocks/{name}/story")
async def get_block_story(
    id: UUID, name: BlockName, actor: CurrentUser, session: ReadSession, services: TheServices
) -> schemas.Story:
    """Tell everything that happened to a block."""
    row = await lookups.block(session, actor, id, name)
    await session.rollback()
    return await telling.story(services.scheduler, row)
