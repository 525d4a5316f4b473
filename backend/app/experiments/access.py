"""Who may see an experiment, and who may change it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from backend.app.auth.actors import Actor, Scope
from backend.app.events.queries import Viewer
from backend.app.experiments import queries
from backend.app.problems import Forbidden, NotFound


def viewer(actor: Actor) -> Viewer:
    """Return an actor as one who looks; an administrator's token needs the scope to see all."""
    return Viewer(actor.id, actor.admin and actor.may(Scope.ADMIN))


async def seen(session: AsyncSession, actor: Actor, id_: UUID, *, lock: bool = False) -> Any:
    """Return the row of an experiment that the actor may see; raises NotFound."""
    row = await queries.get(session, id_, viewer(actor), lock=lock)
    if row is None:
        raise NotFound(f"there is no experiment {id_}")
    return row


def may_change(row: Any, actor: Actor) -> bool:
    """Whether the actor may change an experiment that the actor sees."""
    return bool(row.owner_id == actor.id) or viewer(actor).admin


async def owned(session: AsyncSession, actor: Actor, id_: UUID, *, lock: bool = False) -> Any:
    """Return the row of an experiment that the actor may change; raises NotFound, Forbidden."""
    row = await seen(session, actor, id_, lock=lock)
    if not may_change(row, actor):
        raise Forbidden(f"the experiment is {row.owner}'s; you may look at it, or fork it")
    return row
