"""What the page asks of an experiment: snapshot, results, a block, its log, its outputs."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from backend.app.auth.actors import Actor
from backend.app.cache import queries as cache
from backend.app.cache.store import CacheStore, StoreError
from backend.app.db.sessions import Sessions
from backend.app.events import queries as events
from backend.app.events.frames import wire_event
from backend.app.events.hub import Hub
from backend.app.experiments import access, previews, queries, schemas, views
from backend.app.problems import Conflict, NotFound, Unavailable
from backend.scheduler.core import experiments

LOOK_AGAIN = 2.0  #: seconds after which a long poll looks itself, should nobody have told it
MOST_PIECES = 2000  #: of a log in one answer
FINAL = frozenset(state.value for state in experiments.FINAL)


async def snapshot(sessions: Sessions, actor: Actor, id_: UUID) -> schemas.Snapshot:
    """Return everything that a page draws, as of one event."""
    async with sessions() as session:
        # one look at the database: blocks and last_seq belong together
        await session.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
        row = await access.seen(session, actor, id_)
        return schemas.Snapshot(
            as_of_seq=row.last_seq,
            experiment=await views.experiment(session, row, actor),
            blocks=[views.block_state(block) for block in await queries.blocks(session, id_)],
        )


async def events_after(
    sessions: Sessions, hub: Hub, actor: Actor, id_: UUID, *, after: int, limit: int, wait: float
) -> schemas.EventPage:
    """Return events after a number; with none, wait for some. Waiting holds no connection."""
    deadline = time.monotonic() + wait
    with hub.following(str(id_)) as follower:
        while True:
            page = await _event_page(sessions, actor, id_, after, limit)
            left = deadline - time.monotonic()
            if page.events or page.ended or left <= 0:
                return page
            await _within(follower.wait(), min(left, LOOK_AGAIN))


async def _event_page(
    sessions: Sessions, actor: Actor, id_: UUID, after: int, limit: int
) -> schemas.EventPage:
    async with sessions() as session:
        standing = await events.standing(session, id_, access.viewer(actor))
        if standing is None:
            raise NotFound(f"there is no experiment {id_}")
        found = await events.events_after(session, id_, after, limit)
    last = found[-1].seq if found else after
    return schemas.EventPage(
        events=[schemas.Event(**wire_event(event)) for event in found],
        last_seq=standing.last_seq,
        ended=standing.state in FINAL and last >= standing.last_seq,
    )


async def _within(waiting: Any, seconds: float) -> None:
    try:
        await asyncio.wait_for(waiting, seconds)
    except TimeoutError:
        return


async def results(session: AsyncSession, actor: Actor, id_: UUID) -> schemas.Results:
    """Return what the analyzers found."""
    await access.seen(session, actor, id_)
    rows = await queries.results_of(session, id_)
    return schemas.Results(
        analyzers=[
            schemas.AnalyzerResults(
                block=row.name,
                results={
                    name: schemas.Result.model_validate(result)
                    for name, result in (row.results or {}).items()
                },
            )
            for row in rows
        ]
    )


async def block(session: AsyncSession, actor: Actor, id_: UUID, name: str) -> Any:
    """Return the row of a block; raises NotFound."""
    await access.seen(session, actor, id_)
    row = await queries.block_named(session, id_, name)
    if row is None:
        raise NotFound("the experiment has no block of that name")
    return row


async def block_detail(
    session: AsyncSession, actor: Actor, id_: UUID, name: str, explain: Any
) -> schemas.BlockDetail:
    """Return a block with parameters, attempts and outputs."""
    row = await block(session, actor, id_, name)
    attempts = await queries.attempts(session, row.id)
    finished = row.state in ("done", "cached")
    written = await queries.outputs(session, row.key) if finished else []
    return schemas.BlockDetail(
        **views.block(row),
        attempt=attempts[0].number if attempts else None,
        parameters=row.parameters,
        statistics=row.statistics,
        key=row.key,
        cached=row.state == "cached",
        attempts=[views.attempt(one) for one in attempts],
        outputs=views.outputs(written, row.job),
        explanation=explain(row),
    )


# ---- logs ----


async def log(
    sessions: Sessions,
    hub: Hub,
    actor: Actor,
    id_: UUID,
    name: str,
    *,
    attempt: str | None,
    offset: int,
    wait: float,
) -> schemas.LogPage:
    """Return a log from `offset` on; at its present end, wait for more, or for its end."""
    deadline = time.monotonic() + wait
    page = await _log_page(sessions, actor, id_, name, attempt, offset)
    while not page.pieces and not page.complete:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        with hub.following_log(page.attempt or str(id_)) as grown:
            page = await _log_page(sessions, actor, id_, name, attempt, offset)
            if page.pieces or page.complete:
                break
            await _within(grown.wait(), min(left, LOOK_AGAIN))
        page = await _log_page(sessions, actor, id_, name, attempt, offset)
    return page


async def _log_page(
    sessions: Sessions, actor: Actor, id_: UUID, name: str, attempt: str | None, offset: int
) -> schemas.LogPage:
    async with sessions() as session:
        row = await block(session, actor, id_, name)
        found = await queries.attempt_of(session, row.id, attempt)
        if found is None and attempt is not None:
            raise NotFound("the block has no such attempt")
        if found is None:
            ended = row.state in ("done", "cached", "failed", "cancelled", "skipped")
            return schemas.LogPage(
                attempt=None, offset=offset, next=offset, pieces=[], complete=ended
            )
        rows = await queries.log_after(session, found.id, offset, MOST_PIECES)
    pieces = [_from_offset(row, offset) for row in rows]
    end = pieces[-1].start + len(pieces[-1].text) if pieces else offset
    return schemas.LogPage(
        attempt=found.id,
        offset=offset,
        next=end,
        pieces=pieces,
        complete=found.ended_at is not None and len(rows) < MOST_PIECES,
    )


def _from_offset(row: Any, offset: int) -> schemas.LogPiece:
    skip = max(0, offset - row.start)
    return schemas.LogPiece(stream=row.stream, text=row.text[skip:], start=row.start + skip)


# ---- outputs ----


async def preview(
    session: AsyncSession,
    store: CacheStore,
    actor: Actor,
    id_: UUID,
    name: str,
    output: str,
    *,
    offset: int,
    limit: int,
) -> schemas.OutputPreview:
    """Return some data units of an output of a finished block."""
    row = await block(session, actor, id_, name)
    formats = views.output_formats(row.job)
    parts = (await cache.parts_of(session, [row.key])).get((row.key, output), [])
    if output not in formats or not parts or row.state not in ("done", "cached"):
        raise NotFound("the block has no such output, or not yet, or it was cleaned away")
    await session.rollback()  # give the connection back before reading files

    def read() -> list[previews.Item]:
        files = [(store.verified(part.sha256, part.size), part.rows) for part in parts]
        return previews.read(files, offset, limit)

    try:
        items = await asyncio.to_thread(read)
    except StoreError as error:
        raise Unavailable(f"the output cannot be read: {error}", code="corrupt") from None
    except previews.Unreadable as error:
        raise Conflict(f"the output is not a data file: {error}", code="unreadable") from None
    return schemas.OutputPreview(
        format=formats[output],
        rows=sum(part.rows for part in parts),
        items=[
            schemas.PreviewItem(start=item.start, end=item.end, value=item.value) for item in items
        ],
    )
