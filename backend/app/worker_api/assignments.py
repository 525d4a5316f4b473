"""Leases as assignments: job.json complete, sources, and the files that it reads.

However many leases there are, the number of queries is the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from backend.app.cache import queries as cache
from backend.app.cache.queries import Part
from backend.app.cache.store import CacheStore, stored_path
from backend.app.worker_api import queries
from backend.scheduler.core.instructions import Lease
from gristmill.protocol import Assignment, InputFile, Limits, StoredFile

MESSAGES_FD = 3
Parts = Mapping[tuple[str, str], list[Part]]


@dataclass(frozen=True, slots=True)
class Lacking:
    """An assignment that cannot be made: what is missing, and the cache keys concerned."""

    attempt: str
    message: str
    keys: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class _World:
    """What all the assignments of one poll are made of."""

    blocks: Mapping[str, Any]
    parts: Parts
    algorithms: Mapping[str, str]
    libraries: Mapping[str, Mapping[str, str]]
    databases: Mapping[str, str]


async def build(
    session: AsyncSession, store: CacheStore, files: CacheStore, leases: Sequence[Lease]
) -> list[Assignment | Lacking]:
    """Return an assignment for each lease, in order; `files` holds what people uploaded."""
    if not leases:
        return []
    world = await _gather(session, {UUID(lease.block) for lease in leases})
    await session.rollback()
    return await asyncio.to_thread(
        lambda: [_assignment(world, store, files, lease) for lease in leases]
    )


async def _gather(session: AsyncSession, ids: Collection[UUID]) -> _World:
    blocks = await queries.blocks(session, ids)
    rows = list(blocks.values())
    keys = {read["key"] for row in rows for read in row.job["reads"].values()}
    programs = {_triple(row.algorithm) for row in rows if row.kind != "dataset"}
    views = {_database(row.algorithm) for row in rows if row.kind == "dataset"}
    libraries = {_triple(ref) for row in rows for ref in row.job["job"]["libraries"]}
    return _World(
        blocks=blocks,
        parts=await cache.parts_of(session, keys) if keys else {},
        algorithms=await queries.algorithm_sources(session, programs),
        libraries=await queries.library_files(session, libraries),
        databases=await queries.database_sources(session, views),
    )


def _triple(ref: str) -> tuple[str, str, int]:
    owner, name, version = ref.split("/")
    return owner, name, int(version)


def _database(algorithm: str) -> tuple[str, int]:
    name, version, *_ = algorithm.split("/")
    return name, int(version)


def _assignment(
    world: _World, store: CacheStore, files: CacheStore, lease: Lease
) -> Assignment | Lacking:
    row = world.blocks.get(lease.block)
    if row is None:
        return Lacking(lease.attempt, "the experiment was deleted")
    missing = _missing_keys(row.job, world.parts, store)
    if missing:
        message = f"{len(missing)} inputs are not in the cache any more"
        return Lacking(lease.attempt, message, missing)
    sources = _sources(row, world)
    if sources is None:
        return Lacking(lease.attempt, f"the source of {row.algorithm} is not there any more")
    lost = _import_data(row.job, store, files)
    if lost is not None:
        return Lacking(lease.attempt, f"the file {lost} of the database is not there any more")
    limits = Limits(
        memory_mb=row.memory_mb, time_seconds=row.time_limit_seconds, cores=row.cores_per_slot
    )
    return Assignment(
        attempt=lease.attempt,
        experiment=str(row.experiment_id),
        experiment_name=row.experiment_name,
        owner=row.owner,
        block=row.name,
        environment=(row.environment_name, row.environment_version),
        limits=limits,
        job=_job(row.job, world.parts, lease, limits),
        files=sources,
        inputs=tuple(input_files(row.job, world.parts)),
        queue=row.queue_name,
    )


def _missing_keys(job: Mapping[str, Any], parts: Parts, store: CacheStore) -> frozenset[str]:
    return frozenset(
        read["key"]
        for read in job["reads"].values()
        if not parts.get((read["key"], read["output"]))
        or not all(store.has(part.sha256, part.size) for part in parts[read["key"], read["output"]])
    )


def _sources(row: Any, world: _World) -> dict[str, str] | None:
    """Return path -> text of everything that the job needs of code; None if some is gone."""
    job = row.job["job"]
    if row.kind == "dataset":
        name, version = _database(row.algorithm)
        source = world.databases.get(f"{name}/{version}")
    else:
        source = world.algorithms.get(row.algorithm)
    if source is None or any(ref not in world.libraries for ref in job["libraries"]):
        return None
    return {job["entry"]["file"]: source} | {
        f"{used['folder']}/{path}": text
        for ref, used in job["libraries"].items()
        for path, text in world.libraries[ref].items()
    }


def _import_data(job: Mapping[str, Any], store: CacheStore, files: CacheStore) -> str | None:
    """Have a database's uploaded files in the cache, as links; return the path of a lost one."""
    for file in job["data"]:
        if store.has(file["sha256"], file["size"]):
            continue
        if not store.take_link(files.path(file["sha256"]), file["sha256"], file["size"]):
            return str(file["path"])
    return None


def _job(row: Mapping[str, Any], parts: Parts, lease: Lease, limits: Limits) -> dict[str, Any]:
    """Return job.json: the static part, and what depends on the attempt."""
    return {
        **row["job"],
        "inputs": [
            {
                **port,
                "files": [
                    {"path": path, "first": part.first, "last": part.last}
                    for path, part in _parts_of_port(row, parts, index, port["name"])
                ],
            }
            for index, port in enumerate(row["job"]["inputs"])
        ],
        "range": list(lease.range) if lease.range else None,
        "limits": {
            "memory_mb": limits.memory_mb,
            "time_seconds": limits.time_seconds,
            "cores": limits.cores,
        },
        "messages_fd": MESSAGES_FD,
    }


def _parts_of_port(
    row: Mapping[str, Any], parts: Parts, index: int, port: str
) -> list[tuple[str, Part]]:
    read = row["reads"][port]
    found = parts[read["key"], read["output"]]
    return [(f"inputs/{index}_{number}.arrow", part) for number, part in enumerate(found)]


def input_files(row: Mapping[str, Any], parts: Parts) -> list[InputFile]:
    """Return the files that a job needs; their order numbers them for downloads."""
    found = [
        InputFile(
            stored=StoredFile(path=stored_path(part.sha256), size=part.size, sha256=part.sha256),
            path=path,
        )
        for index, port in enumerate(row["job"]["inputs"])
        for path, part in _parts_of_port(row, parts, index, port["name"])
    ]
    data = [
        InputFile(
            stored=StoredFile(
                path=stored_path(file["sha256"]), size=file["size"], sha256=file["sha256"]
            ),
            path=f"data/{file['path']}",
        )
        for file in row["data"]
    ]
    return found + data
