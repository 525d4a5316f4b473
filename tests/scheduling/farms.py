"""A database with users, queues, workers and experiments, and schedulers that run on it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import insert, select, text, update

from backend.app.db import core
from backend.app.db.engine import Engines
from backend.app.db.ids import uuid7
from backend.app.scheduling.leadership import PostgresLeadership
from backend.app.scheduling.store import PostgresStore
from backend.scheduler.core.events import (
    Finished,
    Outcome,
    QueueSet,
    Started,
    Submitted,
    WorkerSet,
)
from backend.scheduler.core.instructions import Lease
from backend.scheduler.core.model import (
    BlockKind,
    BlockSpec,
    Queue,
    Range,
    Right,
    Submission,
    Worker,
)
from backend.scheduler.loop import Scheduler
from backend.scheduler.ports import PublishedEvent

PYTHON = ("Python", "3.11")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Heard:
    """A bus that keeps what it was told."""

    def __init__(self) -> None:
        self.events: list[PublishedEvent] = []

    def publish(self, experiment: str, events: Sequence[PublishedEvent]) -> None:
        assert all(event.experiment == experiment for event in events)
        self.events += events


class Halves:
    """A splitter whose inputs all have 100 data units, cut evenly."""

    async def plan(self, block: str, slots: int) -> Sequence[Range]:
        return [(100 * i // slots, 100 * (i + 1) // slots - 1) for i in range(slots)]


class World:
    """Two users, one queue of 3 slots on each of two workers."""

    def __init__(self, engines: Engines) -> None:
        self.engines = engines
        self.bus = Heard()
        self.schedulers: list[Scheduler] = []
        self.users: dict[str, str] = {}
        self.workers: dict[str, str] = {}
        self.queue = ""
        self.environment = uuid7()

    # ---- rows -----------------------------------------------------------------------------

    async def set_up(self) -> None:
        async with self.engines.requests.begin() as connection:
            await connection.execute(
                insert(core.environment).values(_environment(self.environment))
            )
            queue = uuid7()
            self.queue = str(queue)
            await connection.execute(insert(core.queue).values(_queue(queue, self.environment)))
            link = {"queue_id": queue, "environment_id": self.environment}
            await connection.execute(insert(core.queue_environment).values(link))
            for name in ("ann", "ben"):
                self.users[name] = str(id_ := uuid7())
                await connection.execute(insert(core.user_account).values(_user(id_, name)))
            for name in ("w1", "w2"):
                self.workers[name] = str(id_ := uuid7())
                await connection.execute(insert(core.worker).values(_worker(id_, name)))
                found = {"name": PYTHON[0], "version": PYTHON[1], "os": "", "packages": {}}
                row = {"worker_id": id_, **found}
                await connection.execute(insert(core.worker_environment).values(row))

    async def experiment(
        self,
        *blocks: tuple[str, ...],
        user: str = "ann",
        slots: dict[str, int] | None = None,
        keys: dict[str, str] | None = None,
    ) -> Plan:
        """Write a draft; a block is its name and the names of its inputs."""
        id_, count = uuid7(), len(self.bus.events)
        name = f"experiment {id_} {count}"
        async with self.engines.requests.begin() as connection:
            await connection.execute(
                insert(core.experiment).values(_experiment(id_, UUID(self.users[user]), user, name))
            )
            rows = [
                _block(
                    id_,
                    position,
                    block,
                    UUID(self.queue),
                    (slots or {}).get(block[0], 1),
                    (keys or {}).get(block[0], f"{id_} {block[0]}"),
                )
                for position, block in enumerate(blocks)
            ]
            if rows:
                await connection.execute(insert(core.block), rows)
        return Plan(self, str(id_), user, rows)

    async def rows(self, table: Any, **where: Any) -> list[Any]:
        async with self.engines.requests.connect() as connection:
            query = select(table)
            for name, value in where.items():
                query = query.where(table.c[name] == value)
            return list((await connection.execute(query)).all())

    async def run(self, statement: str) -> None:
        async with self.engines.requests.begin() as connection:
            await connection.execute(text(statement))

    # ---- schedulers -----------------------------------------------------------------------

    def leadership(self) -> PostgresLeadership:
        return PostgresLeadership(self.engines.background, poll_seconds=0.02)

    def scheduler(self, **more: Any) -> Scheduler:
        leadership = more.pop("leadership", None) or self.leadership()
        store = more.pop("store", None) or PostgresStore(self.engines.background, leadership)
        made = Scheduler(
            store, self.bus, more.pop("splitter", Halves()), leadership=leadership, **more
        )
        self.schedulers.append(made)
        return made

    async def started(self, **more: Any) -> Scheduler:
        made = self.scheduler(**more)
        await made.start()
        return made

    async def stop(self) -> None:
        for scheduler in self.schedulers:
            await scheduler.stop()


class Plan:
    """An experiment that can be submitted."""

    def __init__(self, world: World, id_: str, user: str, rows: list[dict[str, Any]]) -> None:
        self.world, self.id, self.user, self.rows = world, id_, user, rows
        self.ids = {row["name"]: str(row["id"]) for row in rows}

    def submitted(
        self, *, slots: int = 100, cached: tuple[str, ...] = (), before: int = 0
    ) -> Submitted:
        specs = tuple(
            BlockSpec(
                id=str(row["id"]),
                name=row["name"],
                kind=BlockKind.BLOCK,
                inputs=tuple(self.ids[name] for name in row["inputs"]),
                queue=self.world.queue,
                environment=PYTHON,
                slots=row["slots"],
                key=row["key"],
                attempts_before=before,
            )
            for row in self.rows
        )
        submission = Submission(
            experiment=self.id,
            user=self.world.users[self.user],
            rights={self.world.queue: Right(slots=slots, priority=1)},
            blocks=specs,
            submitted_at=1000.0,
        )
        return Submitted(submission=submission, cached=frozenset(cached))

    async def states(self) -> dict[str, str]:
        rows = await self.world.rows(core.block, experiment_id=UUID(self.id))
        return {row.name: row.state for row in rows}

    async def row(self) -> Any:
        (row,) = await self.world.rows(core.experiment, id=UUID(self.id))
        return row

    async def events(self) -> list[Any]:
        rows = await self.world.rows(core.event, experiment_id=UUID(self.id))
        return sorted(rows, key=lambda row: row.seq)


def started(lease: Lease) -> Started:
    return Started(attempt=lease.attempt, worker=lease.worker)


def done(lease: Lease, *, outcome: Outcome = Outcome.DONE, results: Any = None) -> Finished:
    """The end of an attempt that wrote one output file over its range."""
    first, last = lease.range or (0, 99)
    output = {
        "output": "out",
        "first": first,
        "last": last,
        "rows": last - first + 1,
        "size": 10 * (last - first + 1),
        "sha256": hashlib.sha256(lease.attempt.encode()).hexdigest(),
        "path": f"objects/{lease.attempt}",
    }
    usage = {
        "wall_seconds": 1.5,
        "cpu_user_seconds": 1.0,
        "cpu_system_seconds": 0.25,
        "peak_memory_mb": 30.0,
        "bytes_read": 100,
        "bytes_written": 10,
    }
    details = {"usage": usage, "exit_code": 0, "outputs": [output], "results": results}
    return Finished(attempt=lease.attempt, worker=lease.worker, outcome=outcome, details=details)


async def work(scheduler: Scheduler, *workers: str) -> list[Lease]:
    """Return what the workers are to run now."""
    found = [await scheduler.next_work(worker, (), 0) for worker in workers]
    return [lease for work in found for lease in work.leases]


async def run_all(scheduler: Scheduler, *workers: str) -> int:
    """Run whatever there is until nothing is left; return how many jobs that were."""
    count = 0
    while True:
        await scheduler.settled()
        leases = await work(scheduler, *workers)
        if not leases:
            return count
        for lease in leases:
            assert await scheduler.handle(started(lease), done(lease)) == []
        count += len(leases)


def queue_set(world: World, *, slots: int = 3) -> QueueSet:
    return QueueSet(
        queue=Queue(
            id=world.queue,
            name="Q1",
            memory_mb=100,
            time_seconds=60,
            slots_per_worker=slots,
            cores_per_slot=1,
            environments=frozenset({PYTHON}),
        )
    )


def worker_set(world: World, name: str, **more: Any) -> WorkerSet:
    worker = Worker(
        id=world.workers[name],
        name=name,
        cores=8,
        memory_mb=8000,
        environments=frozenset({PYTHON}),
    )
    return WorkerSet(worker=worker, **more)


def _environment(id_: UUID) -> dict[str, Any]:
    named = {"name": PYTHON[0], "version": PYTHON[1], "os": "", "description": ""}
    return {"id": id_, "created_at": NOW, "revision": 1, **named}


def _queue(id_: UUID, environment: UUID) -> dict[str, Any]:
    return {
        "id": id_,
        "created_at": NOW,
        "revision": 1,
        "name": "Q1",
        "description": "",
        "memory_mb": 100,
        "time_limit_seconds": 60,
        "slots_per_worker": 3,
        "cores_per_slot": 1,
        "default_environment_id": environment,
    }


def _user(id_: UUID, name: str) -> dict[str, Any]:
    return {
        "id": id_,
        "created_at": NOW,
        "revision": 1,
        "username": name,
        "email": "",
        "password_hash": "",
        "reputation": 100,
        "active": True,
        "admin": False,
    }


def _worker(id_: UUID, name: str) -> dict[str, Any]:
    return {
        "id": id_,
        "created_at": NOW,
        "revision": 1,
        "name": name,
        "host": "",
        "cores": 8,
        "memory_mb": 8000,
        "executor": "process",
        "sandbox": "none",
        "limits": "",
        "version": "",
        "shares_cache": False,
        "state": "online",
    }


def _experiment(id_: UUID, owner_id: UUID, owner: str, name: str) -> dict[str, Any]:
    return {
        "id": id_,
        "created_at": NOW,
        "revision": 1,
        "owner_id": owner_id,
        "owner": owner,
        "name": name,
        "description": "",
        "visibility": "private",
        "toolchain": "ann/chain/1",
        "toolchain_declaration": {},
        "declaration": {},
        "state": "draft",
        "run": 1,
        "last_seq": 0,
        "submitted_at": NOW,
    }


def _block(
    experiment: UUID, position: int, block: tuple[str, ...], queue: UUID, slots: int, key: str
) -> dict[str, Any]:
    return {
        "id": uuid7(),
        "experiment_id": experiment,
        "name": block[0],
        "kind": "block",
        "position": position,
        "inputs": list(block[1:]),
        "algorithm": "ann/sum/1",
        "parameters": {},
        "job": {},
        "queue_id": queue,
        "environment_name": PYTHON[0],
        "environment_version": PYTHON[1],
        "slots": slots,
        "key": hashlib.sha256(key.encode()).hexdigest(),
        "state": "blocked",
    }


async def rerun(plan: Plan) -> None:
    """What the application does before an experiment is submitted again."""
    world = plan.world
    async with world.engines.requests.begin() as connection:
        await connection.execute(
            update(core.block)
            .where(core.block.c.experiment_id == UUID(plan.id))
            .values(state="blocked", finished_at=None, started_at=None, queued_at=None)
        )
        await connection.execute(
            update(core.experiment)
            .where(core.experiment.c.id == UUID(plan.id))
            .values(run=core.experiment.c.run + 1)
        )
