"""Forgetting what has had its time: sessions, refresh tokens, idempotency keys."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import structlog
from sqlalchemy import delete
from sqlmodel import col

from backend.app.db.sessions import Sessions
from backend.app.db.tables import BrowserSession, IdempotencyKey, RefreshToken
from backend.app.idempotency import KEPT_SECONDS
from backend.app.services import Services

log = structlog.stdlib.get_logger(__name__)

EVERY_SECONDS = 600.0


async def run_once(sessions: Sessions, now: datetime) -> int:
    """Remove what is over; return how many rows. Again removes nothing more."""
    since = now - timedelta(seconds=KEPT_SECONDS)
    async with sessions() as session:
        removed = [
            await session.execute(statement)
            for statement in (
                delete(BrowserSession).where(col(BrowserSession.expires_at) <= now),
                delete(RefreshToken).where(col(RefreshToken.expires_at) <= now),
                delete(IdempotencyKey).where(col(IdempotencyKey.created_at) <= since),
            )
        ]
        await session.commit()
    return sum(getattr(result, "rowcount", 0) for result in removed)


@contextlib.asynccontextmanager
async def running(services: Services) -> AsyncIterator[None]:
    """Do it every ten minutes meanwhile."""
    task = asyncio.create_task(_for_ever(services), name="housekeeping")
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _for_ever(services: Services) -> None:
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        try:
            removed = await run_once(services.background, services.clock())
        except Exception:  # the next time may be better; the duty must not end
            log.exception("housekeeping failed")
        else:
            log.info("housekeeping", removed=removed)
