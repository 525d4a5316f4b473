"""The list of experiments: a page of it in two queries, whatever its length."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from backend.app.auth.actors import Actor
from backend.app.db.core import experiment
from backend.app.experiments import access, queries, schemas, views
from backend.app.pages import Paging
from backend.app.pages import page as part_of
from backend.scheduler.core import experiments


async def page(
    session: AsyncSession,
    actor: Actor,
    part: Paging,
    *,
    state: experiments.State | None,
    owner: str | None,
    text: str | None,
) -> schemas.ExperimentList:
    """Return a part of the experiments that one may see, newest first."""
    query = queries.listed(
        access.viewer(actor), state=state.value if state else None, owner=owner, text=text
    )
    rows, cursor = await part_of(session, query, [experiment.c.id], part, descending=True)
    counts = await queries.counts(session, [row.id for row in rows])
    items = [views.summary(row, counts[row.id]) for row in rows]
    return schemas.ExperimentList(items=items, next=cursor)
