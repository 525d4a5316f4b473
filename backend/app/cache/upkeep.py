"""The cache's housekeeping: once in a while, remove what nothing refers to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import structlog

from backend.app.cache import service
from backend.app.services import Services

log = structlog.stdlib.get_logger(__name__)

EVERY_SECONDS = 3600.0


@contextlib.asynccontextmanager
async def running(services: Services) -> AsyncIterator[None]:
    """Do it every hour meanwhile."""
    task = asyncio.create_task(_for_ever(services), name="upkeep of the cache")
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
            freed = await service.tidy(services.background, services.cache, services.clock())
        except Exception:  # the next time may be better; the duty must not end
            log.exception("the cache could not be tidied")
        else:
            log.info("the cache was tidied", freed_bytes=freed)
