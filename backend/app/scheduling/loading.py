"""What is live, read from the database as a snapshot: the start of every farm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from backend.app.scheduling import queries
from backend.scheduler.core import blocks, experiments
from backend.scheduler.core.model import (
    RETRIED,
    BlockKind,
    BlockSpec,
    Environment,
    Failure,
    FailureKind,
    Queue,
    Right,
    Submission,
    Worker,
    WorkerState,
)
from backend.scheduler.core.snapshot import (
    RecentUse,
    SavedBlock,
    SavedExperiment,
    SavedJob,
    SavedLease,
    Snapshot,
)

#: asyncpg's, which ships no types; SQLAlchemy has taught it to read JSON documents
Connection: TypeAlias = Any
Row = Mapping[str, Any]
POLICY, RECENT_USE = "policy", "recent_use"  #: keys of settings


async def load(connection: Connection) -> Snapshot:
    """Read what is live, and only that; all of it as of one instant."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        policy = await _setting(connection, POLICY)
        use = await _setting(connection, RECENT_USE)
        return Snapshot(
            queues=await _queues(connection),
            workers=await _workers(connection),
            rights=await _rights(connection),
            policy=str(policy.get("name", "fifo")),
            experiments=await _experiments(connection),
            leases=tuple(_lease(row) for row in await connection.fetch(queries.OPEN_ATTEMPTS)),
            cached=frozenset(row["key"] for row in await connection.fetch(queries.HELD_KEYS)),
            recent_use=tuple(RecentUse(**one) for one in use.get("users", ())),
        )


async def _setting(connection: Connection, key: str) -> dict[str, Any]:
    value: dict[str, Any] | None = await connection.fetchval(queries.SETTING, key)
    return value if value is not None else {}


async def _queues(connection: Connection) -> tuple[Queue, ...]:
    offered = _environments(await connection.fetch(queries.QUEUE_ENVIRONMENTS), "queue_id")
    return tuple(
        Queue(
            id=str(row["id"]),
            name=row["name"],
            memory_mb=row["memory_mb"],
            time_seconds=row["time_limit_seconds"],
            slots_per_worker=row["slots_per_worker"],
            cores_per_slot=row["cores_per_slot"],
            environments=frozenset(offered[row["id"]]),
        )
        for row in await connection.fetch(queries.QUEUES)
    )


async def _workers(connection: Connection) -> tuple[Worker, ...]:
    rows = await connection.fetch(queries.WORKER_ENVIRONMENTS)
    environments = _environments(rows, "worker_id")
    shares: dict[Any, dict[str, int]] = defaultdict(dict)
    for row in await connection.fetch(queries.SLOT_SHARES):
        shares[row["worker_id"]][str(row["queue_id"])] = row["slots"]
    return tuple(
        Worker(
            id=str(row["id"]),
            name=row["name"],
            cores=row["cores"],
            memory_mb=row["memory_mb"],
            environments=frozenset(environments[row["id"]]),
            state=WorkerState(row["state"]),
            shares=shares[row["id"]],
        )
        for row in await connection.fetch(queries.WORKERS)
    )


def _environments(rows: Iterable[Row], owner: str) -> dict[Any, set[Environment]]:
    found: dict[Any, set[Environment]] = defaultdict(set)
    for row in rows:
        found[row[owner]].add((row["name"], row["version"]))
    return found


async def _rights(connection: Connection) -> dict[str, dict[str, Right]]:
    held: dict[str, dict[str, Right]] = defaultdict(dict)
    for row in await connection.fetch(queries.RIGHTS):
        right = Right(slots=row["slots"], priority=row["priority"])
        held[str(row["user_id"])][str(row["queue_id"])] = right
    return dict(held)


async def _experiments(connection: Connection) -> tuple[SavedExperiment, ...]:
    saved = await _blocks(connection)
    rows = await connection.fetch(queries.EXPERIMENTS)
    return tuple(_experiment(row, saved.get(row["id"], [])) for row in rows)


def _experiment(row: Row, saved: list[SavedBlock]) -> SavedExperiment:
    submission = Submission(
        experiment=str(row["id"]),
        user=str(row["owner_id"]),
        rights={},  # those that the scheduler holds are in the snapshot
        blocks=tuple(block.spec for block in saved),
        submitted_at=row["submitted_at"].timestamp() if row["submitted_at"] else 0.0,
    )
    state = experiments.State(row["state"])
    return SavedExperiment(submission=submission, state=state, blocks=tuple(saved))


async def _blocks(connection: Connection) -> dict[Any, list[SavedBlock]]:
    jobs: dict[Any, list[Row]] = defaultdict(list)
    for row in await connection.fetch(queries.JOBS):
        jobs[row["block_id"]].append(row)
    tried: dict[Any, dict[int, Row]] = defaultdict(dict)
    for row in await connection.fetch(queries.TRIED, [str(kind) for kind in RETRIED]):
        tried[row["block_id"]][row["index"]] = row
    rows = await connection.fetch(queries.BLOCKS)
    ids = {(row["experiment_id"], row["name"]): str(row["id"]) for row in rows}
    found: dict[Any, list[SavedBlock]] = defaultdict(list)
    for row in rows:
        inputs = tuple(ids[row["experiment_id"], n] for n in row["inputs"])
        saved = _block(row, inputs, jobs.get(row["id"], []), tried.get(row["id"], {}))
        found[row["experiment_id"]].append(saved)
    return found


def _block(row: Row, inputs: tuple[str, ...], jobs: list[Row], tried: dict[int, Row]) -> SavedBlock:
    state = blocks.State(row["state"])
    spec = BlockSpec(
        id=str(row["id"]),
        name=row["name"],
        kind=BlockKind(row["kind"]),
        inputs=inputs,
        queue=str(row["queue_id"]),
        environment=(row["environment_name"], row["environment_version"]),
        slots=row["slots"],
        key=row["key"],
        attempts_before=max((one["before"] for one in tried.values()), default=0),
    )
    cut = bool(jobs) or any(one["tries"] for one in tried.values())
    return SavedBlock(
        spec=spec,
        state=state,
        jobs=_jobs(jobs, tried) if cut else (),
        cut=cut,
        queued_at=row["queued_at"].timestamp() if row["queued_at"] else None,
        doom=_failure(row["failure"]) if state not in blocks.FINAL else None,
    )


def _jobs(rows: list[Row], tried: dict[int, Row]) -> tuple[SavedJob, ...]:
    cut: list[Row] = rows or [{"index": 0, "first": None, "last": None}]  # whole
    return tuple(
        SavedJob(
            index=row["index"],
            range=None if row["first"] is None else (row["first"], row["last"]),
            done=bool(row["index"] in tried and tried[row["index"]]["done"]),
            number=tried[row["index"]]["number"] if row["index"] in tried else 0,
            failures=tried[row["index"]]["failures"] if row["index"] in tried else 0,
        )
        for row in cut
    )


def _failure(failure: dict[str, Any] | None) -> Failure | None:
    if failure is None:
        return None
    return Failure(
        kind=FailureKind(failure["kind"]),
        message=failure["message"],
        trace=failure.get("trace"),
    )


def _lease(row: Row) -> SavedLease:
    return SavedLease(
        attempt=row["id"],
        block=str(row["block_id"]),
        index=row["index"],
        number=row["number"],
        worker=str(row["worker_id"]),
        leased_at=row["leased_at"].timestamp(),
        started=row["started"],
        revoked=row["revoked"],
    )
