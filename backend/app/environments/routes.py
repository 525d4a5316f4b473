"""Environments: a room of one file. Only a worker knows where an environment is installed."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from fastapi import Response
from pydantic import BaseModel, ConfigDict
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from backend.app import etags, pages
from backend.app.audit.service import record
from backend.app.auth.actors import Actor, Admin, CurrentUser
from backend.app.clock import Now
from backend.app.conflicts import flush_deleted, flush_unique, in_use, there
from backend.app.db import core
from backend.app.db.sessions import ReadSession, WriteSession
from backend.app.db.tables import Environment
from backend.app.etags import IfMatch, tagged
from backend.app.pages import Page, Part
from backend.app.routing import api_router
from backend.app.texts import DisplayName, Line, Markdown, VersionName
from backend.scheduler.core import experiments

router = api_router("environments")


class EnvironmentView(BaseModel):
    """An environment."""

    id: UUID
    name: str
    version: str
    os: str
    description: str
    workers: int = 0  #: how many workers have found it on themselves
    created_at: datetime
    revision: int


class NewEnvironment(BaseModel):
    """An environment to offer."""

    model_config = ConfigDict(extra="forbid")
    name: DisplayName
    version: VersionName
    os: Line = ""
    description: Markdown = ""


class EnvironmentChange(BaseModel):
    """What to change; name and version are part of cache keys and stay."""

    model_config = ConfigDict(extra="forbid")
    os: Line = ""
    description: Markdown = ""


# ---- queries ------------------------------------------------------------------------------


async def _views(session: AsyncSession, rows: list[Environment]) -> list[EnvironmentView]:
    found = core.worker_environment
    query = select(found.c.name, found.c.version, func.count()).group_by(
        found.c.name, found.c.version
    )
    counts = {(name, version): n for name, version, n in await session.execute(query)}
    return [
        EnvironmentView(**row.model_dump(), workers=counts.get((row.name, row.version), 0))
        for row in rows
    ]


async def _view(session: AsyncSession, row: Environment) -> EnvironmentView:
    return (await _views(session, [row]))[0]


async def _users(session: AsyncSession, row: Environment) -> list[str]:
    """Return the queues that offer it and the live experiments that run in it."""
    link, queue, block, experiment = (
        core.queue_environment,
        core.queue,
        core.block,
        core.experiment,
    )
    queues: Any = (
        select(queue.c.name)
        .outerjoin(link, link.c.queue_id == queue.c.id)
        .where((link.c.environment_id == row.id) | (queue.c.default_environment_id == row.id))
        .distinct()
        .order_by(queue.c.name)
    )
    live: Any = (
        select(experiment.c.owner + "/" + experiment.c.name)
        .join(block, block.c.experiment_id == experiment.c.id)
        .where(
            block.c.environment_name == row.name,
            block.c.environment_version == row.version,
            experiment.c.state.in_([state.value for state in experiments.LIVE]),
        )
        .distinct()
        .limit(20)
    )
    return [f"queue {name}" for name in await session.scalars(queues)] + [
        f"experiment {name}" for name in await session.scalars(live)
    ]


# ---- service ------------------------------------------------------------------------------


async def _create(
    session: AsyncSession, actor: Actor, wanted: NewEnvironment, now: datetime
) -> EnvironmentView:
    made = Environment(**wanted.model_dump(), created_at=now)
    session.add(made)
    taken = f"there is an environment {wanted.name} ({wanted.version}) already"
    await flush_unique(session, "/version", taken)
    view = await _view(session, made)
    record(session, actor, "create_environment", _label(made), now, after=view)
    await session.commit()
    return view


def _label(row: Environment) -> str:
    return f"environment {row.name} ({row.version})"


async def _update(
    session: AsyncSession,
    actor: Actor,
    environment_id: UUID,
    change: EnvironmentChange,
    if_match: str | None,
    now: datetime,
) -> EnvironmentView:
    row = there(await session.get(Environment, environment_id, with_for_update=True), "environment")
    etags.require(if_match, row.revision)
    before = await _view(session, row)
    for name, value in change.model_dump(exclude_unset=True).items():
        setattr(row, name, value)
    row.revision += 1
    after = await _view(session, row)
    record(session, actor, "update_environment", _label(row), now, before=before, after=after)
    await session.commit()
    return after


async def _delete(
    session: AsyncSession,
    actor: Actor,
    environment_id: UUID,
    if_match: str | None,
    now: datetime,
) -> None:
    row = there(await session.get(Environment, environment_id, with_for_update=True), "environment")
    etags.require(if_match, row.revision)
    if users := await _users(session, row):
        detail = f"{_label(row)} is in use: take it out of these queues, let the experiments end"
        raise in_use(detail, users)
    record(session, actor, "delete_environment", _label(row), now, before=await _view(session, row))
    await session.delete(row)
    await flush_deleted(session, f"{_label(row)} is in use")
    await session.commit()


# ---- endpoints ----------------------------------------------------------------------------


@router.get("/environments")
async def list_environments(
    _actor: CurrentUser, session: ReadSession, part: Part
) -> Page[EnvironmentView]:
    """List environments by name and version."""
    columns = [col(Environment.name), col(Environment.version)]
    rows, cursor = await pages.page(session, select(Environment), columns, part)
    return Page(items=await _views(session, rows), next=cursor)


@router.post("/environments", status_code=201)
async def create_environment(
    body: NewEnvironment, actor: Admin, session: WriteSession, now: Now, response: Response
) -> EnvironmentView:
    """Make an environment known, so that queues can offer it."""
    return tagged(response, await _create(session, actor, body, now))


@router.get("/environments/{environment_id}")
async def get_environment(
    environment_id: UUID, _actor: CurrentUser, session: ReadSession, response: Response
) -> EnvironmentView:
    """Show an environment and what is installed in it."""
    row = there(await session.get(Environment, environment_id), "environment")
    return tagged(response, await _view(session, row))


@router.patch("/environments/{environment_id}")
async def update_environment(
    environment_id: UUID,
    body: EnvironmentChange,
    actor: Admin,
    session: WriteSession,
    now: Now,
    response: Response,
    if_match: IfMatch = None,
) -> EnvironmentView:
    """Change an environment's description."""
    return tagged(response, await _update(session, actor, environment_id, body, if_match, now))


@router.delete("/environments/{environment_id}", status_code=204)
async def delete_environment(
    environment_id: UUID,
    actor: Admin,
    session: WriteSession,
    now: Now,
    if_match: IfMatch = None,
) -> None:
    """Delete an environment that no queue offers and no live experiment runs in."""
    await _delete(session, actor, environment_id, if_match, now)
