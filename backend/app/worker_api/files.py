"""Files between server and workers that share no cache folder: downloads and uploads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from backend.app.auth.actors import WorkerActor
from backend.app.cache import queries as cache
from backend.app.cache.store import (
    BadName,
    Busy,
    CacheStore,
    Missing,
    StoreError,
    WrongOffset,
    hash_file,
)
from backend.app.problems import Conflict, Invalid, NotFound, TooLarge, Unavailable
from backend.app.services import Services
from backend.app.worker_api import queries
from backend.app.worker_api.assignments import input_files
from backend.app.worker_api.registration import require_scheduler


def leased(services: Services, worker: WorkerActor, attempt: str) -> None:
    """Raise NotFound unless the attempt is open and this worker's."""
    require_scheduler(services)
    if not services.scheduler.holds(attempt, str(worker.id)):
        raise NotFound("this worker holds no such attempt")


async def input_path(
    session: AsyncSession, services: Services, attempt: str, number: int
) -> tuple[Path, str]:
    """Return a file that an attempt reads, its content checked, and its SHA-256."""
    block = UUID(attempt.split(".")[0])
    job = (await queries.jobs(session, [block])).get(str(block))
    if job is None:
        raise NotFound("this worker holds no such attempt")
    parts = await cache.parts_of(session, {read["key"] for read in job["reads"].values()})
    await session.rollback()
    try:
        wanted = input_files(job, parts)[number].stored
    except (IndexError, KeyError):
        raise NotFound(f"the attempt has no input {number}") from None
    try:
        path = await asyncio.to_thread(services.cache.verified, wanted.sha256, wanted.size)
    except Missing:
        raise NotFound("the input is not in the cache any more", code="cleaned") from None
    except StoreError as error:
        raise Unavailable(f"the input is broken: {error}", code="corrupt") from None
    return path, wanted.sha256


def received(store: CacheStore, attempt: str, name: str) -> int:
    """Return how many bytes of an upload have arrived."""
    try:
        return store.received(attempt, name)
    except BadName as error:
        raise NotFound(str(error)) from None


async def receive(
    services: Services,
    attempt: str,
    name: str,
    body: AsyncIterator[bytes],
    *,
    offset: int,
    size: int,
    sha256: str,
) -> int:
    """Append a body to an upload; return how many bytes there are. When all are: check them."""
    limit = services.settings.output_limit
    if size > limit:
        raise TooLarge(f"an output of {size:,} bytes is larger than the {limit:,} that are taken")
    try:
        have = await _append(services.cache, attempt, name, body, offset=offset, size=size)
    except WrongOffset as error:
        headers = {"Upload-Offset": str(error.have)}
        raise Conflict(str(error), code="offset", headers=headers) from None
    except Busy as error:
        raise Conflict(str(error), code="busy", headers={"Retry-After": "1"}) from None
    except BadName as error:
        raise Invalid(str(error)) from None
    if have == size:
        await _check_whole(services.cache.incoming(attempt, name), sha256)
    return have


async def _append(
    store: CacheStore,
    attempt: str,
    name: str,
    body: AsyncIterator[bytes],
    *,
    offset: int,
    size: int,
) -> int:
    with store.appending(attempt, name, offset) as file:
        have = offset
        async for chunk in body:
            have += len(chunk)
            if have > size:
                raise TooLarge(f"more than the {size:,} bytes that were announced")
            await asyncio.to_thread(file.write, chunk)
    return have


async def _check_whole(path: Path, sha256: str) -> None:
    found = await asyncio.to_thread(hash_file, path)
    if found != sha256:
        await asyncio.to_thread(path.unlink, missing_ok=True)
        raise Invalid(
            f"the file that arrived has the SHA-256 {found} instead of {sha256}; send it again",
            code="hash",
            headers={"Upload-Offset": "0"},
        )
