"""The scheduler's store on PostgreSQL: one transaction for the decisions of one batch.

All of it goes through the connection that holds the scheduler's lock (leadership.py), so a
process that has lost the lock cannot write. Statements take arrays: a batch of a thousand
decisions is a dozen statements.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Protocol, TypeAlias

from sqlalchemy.ext.asyncio import AsyncEngine

from backend.app.scheduling import history, loading, queries, rows
from backend.app.scheduling.entries import entries_of
from backend.app.scheduling.leadership import driver_of
from backend.app.scheduling.rows import EventDraft, Rows
from backend.scheduler.core import blocks
from backend.scheduler.core.instructions import Instruction
from backend.scheduler.core.snapshot import RecentUse, Snapshot
from backend.scheduler.core.story import Line
from backend.scheduler.ports import MissingFromCacheError, Progress, PublishedEvent

Connection: TypeAlias = Any  # asyncpg ships no types
Record: TypeAlias = Any  # row["column"]
Names = Mapping[str, str]  #: block id -> name


class HasConnection(Protocol):
    """Who keeps the one connection that may write."""

    def connection(self) -> Connection:
        """Return it, or raise LeadershipLostError."""
        ...


class WriteConflictError(Exception):
    """Rows are not as the scheduler holds them: somebody else has changed them."""


class PostgresStore:
    """ports.Store over the tables."""

    def __init__(self, engine: AsyncEngine, leadership: HasConnection) -> None:
        self._engine = engine  # for what needs no lock: reading stories
        self._leadership = leadership
        self._one_at_a_time = asyncio.Lock()  # there is one connection
        self._use_written: list[RecentUse] = []

    async def load(self) -> Snapshot:
        """Read what is live."""
        async with self._one_at_a_time:
            return await loading.load(self._leadership.connection())

    async def commit(self, instructions: Sequence[Instruction], now: float) -> list[PublishedEvent]:
        """Write instructions in one transaction; return the events of it in order.

        Raises MissingFromCacheError, WriteConflictError, LeadershipLostError and what asyncpg
        raises; nothing is written then.
        """
        wanted = rows.rows_of(instructions, now)
        if wanted.is_empty():
            return []
        async with self._writing() as connection:
            return await _Commit(connection, wanted, now).write()

    async def progress(self, reports: Sequence[Progress], now: float) -> list[PublishedEvent]:
        """Write progress reports without waiting for the disk."""
        async with self._writing() as connection:
            await connection.execute(queries.LIGHTLY)
            return await _write_progress(connection, reports, now)

    async def remember(self, seen: Mapping[str, float], recent_use: Sequence[RecentUse]) -> None:
        """Keep when workers were heard and what users took, without waiting for the disk."""
        use = list(recent_use)
        if not seen and use == self._use_written:
            return
        async with self._writing() as connection:
            await connection.execute(queries.LIGHTLY)
            times = [_time(at) for at in seen.values()]
            await connection.execute(queries.SEEN, list(seen), times)
            if use != self._use_written:
                document = json.dumps({"users": [_use_document(one) for one in use]})
                await connection.execute(queries.SET_SETTING, loading.RECENT_USE, document)
        self._use_written = use

    async def history(self, block: str) -> list[Line]:
        """Return the story of a block from its events and attempts."""
        async with self._engine.connect() as opened:
            connection = await driver_of(opened)
            events = await connection.fetch(queries.STORY_EVENTS, block)
            attempts = await connection.fetch(queries.STORY_ATTEMPTS, block)
        told = [*history.lines_of_events(events), *history.lines_of_attempts(attempts)]
        return sorted(told, key=lambda line: line.time)

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[Connection]:
        """Open a transaction on the connection that holds the lock."""
        async with self._one_at_a_time:
            connection = self._leadership.connection()
            async with connection.transaction():
                yield connection


class _Commit:
    """One transaction under way."""

    def __init__(self, connection: Connection, wanted: Rows, now: float) -> None:
        self.connection = connection
        self.rows = wanted
        self.now = now
        self.at = _time(now)
        self.owners: dict[str, Any] = {}  # of the experiments that are written

    async def write(self) -> list[PublishedEvent]:
        """Write it all; experiments first, whose locks keep everybody else in order."""
        last = await self._experiments()
        found = await self._blocks()
        await self._splits()
        await self._attempts()
        await self._cache(found)
        await self._farm()
        events = self._number(last, {name: row["name"] for name, row in found.items()})
        await self._events(events)
        return [*events, *await self._purge(last)]

    async def _run(self, statement: str, *arguments: Any) -> None:
        if arguments[0]:
            await self.connection.execute(statement, *arguments)

    async def _experiments(self) -> dict[str, int]:
        """Set states and number the events; return the last number that each had before."""
        changes = self.rows.experiments
        if not changes:
            return {}
        values = list(changes.values())
        found = await self.connection.fetch(
            queries.SET_EXPERIMENTS,
            list(changes),
            [str(change.state) if change.state else None for change in values],
            [len(change.events) for change in values],
            [_time(c.submitted_at) if c.submitted_at is not None else None for c in values],
            [change.started for change in values],
            self.at,
        )
        begun = [name for name, change in changes.items() if change.submitted_at is not None]
        await self._run(queries.FORGET_CUTS, begun)
        last = {str(row["id"]): row["last_seq"] for row in found}
        self.owners = {str(row["id"]): row["owner_id"] for row in found}
        return {name: seq - len(changes[name].events) for name, seq in last.items()}

    async def _blocks(self) -> dict[str, Record]:
        changes = self.rows.blocks
        if not changes:
            return {}
        values = list(changes.values())
        found = await self.connection.fetch(
            queries.SET_BLOCKS,
            list(changes),
            [str(change.state) for change in values],
            [change.reason for change in values],
            [_json(rows.failure_document(change.failure)) for change in values],
            [change.worker for change in values],
            [change.queued for change in values],
            [change.started for change in values],
            self.at,
        )
        if len(found) != len(changes):
            raise WriteConflictError(f"{len(changes) - len(found)} blocks have no row any more")
        return {str(row["id"]): row for row in found}

    async def _splits(self) -> None:
        cuts = [
            (split.block, index, *(range_ or (None, None)))
            for split in self.rows.splits
            for index, range_ in enumerate(split.ranges)
        ]
        await self._run(queries.FORGET_JOBS, [split.block for split in self.rows.splits])
        await self._run(queries.ADD_JOBS, *_columns(cuts, 4))

    async def _attempts(self) -> None:
        await self._leases()
        await self._run(queries.BEGIN_ATTEMPTS, self.rows.begun, self.at)
        await self._run(queries.REVOKE_ATTEMPTS, self.rows.revoked, self.at)
        await self._closes()

    async def _leases(self) -> None:
        leases = self.rows.leases
        if not leases:
            return
        columns = _columns(
            [(a.attempt, a.block, a.experiment, a.index, a.number, a.worker) for a in leases], 6
        )
        added = await self.connection.fetch(queries.ADD_ATTEMPTS, *columns, self.at)
        if len(added) != len(leases):
            raise WriteConflictError("a lease is of an experiment or worker that has no row")

    async def _closes(self) -> None:
        closes = self.rows.closes
        if not closes:
            return
        ended = await self.connection.fetch(
            queries.CLOSE_ATTEMPTS,
            [close.attempt for close in closes],
            [str(close.outcome) if close.outcome else None for close in closes],
            [_json(rows.failure_document(close.failure)) for close in closes],
            [_json(rows.statistics_document(close)) for close in closes],
            self.at,
        )
        if len(ended) != len(closes):
            raise WriteConflictError("an attempt that ends now had ended already")
        done = [(row["block_id"], row["index"]) for row in ended if row["outcome"] == "done"]
        await self._run(queries.JOBS_DONE, *_columns(done, 2))

    async def _cache(self, found: Mapping[str, Record]) -> None:
        """Make the entries of blocks that are done, and use those of blocks that are cached."""
        done = self.rows.in_state(blocks.State.DONE)
        cached = self.rows.in_state(blocks.State.CACHED)
        if done:
            await self._make_entries([found[block] for block in done])
        if cached:
            await self._use_entries([found[block]["key"] for block in cached])
        await self._run(queries.SHOW_ENTRIES, [*done, *cached])

    async def _make_entries(self, done: list[Record]) -> None:
        attempts = await self.connection.fetch(queries.DONE_ATTEMPTS, [row["id"] for row in done])
        made = entries_of(done, attempts, self.owners, self.rows.results)
        columns = _columns(
            [
                (
                    entry.key,
                    entry.algorithm,
                    entry.environment,
                    entry.made_by,
                    entry.size,
                    json.dumps(entry.statistics),
                    _json(entry.results),
                )
                for entry in made.values()
            ],
            7,
        )
        new = await self.connection.fetch(queries.ADD_ENTRIES, *columns, self.at)
        names = ("output", "first", "last", "path", "size", "rows", "sha256")
        parts = [
            (row["key"], *(output[name] for name in names))
            for row in new
            for output in made[row["key"]].outputs
        ]
        await self._run(queries.ADD_PARTS, *_columns(parts, 8))

    async def _use_entries(self, keys: list[str]) -> None:
        hits = Counter(keys)
        used = await self.connection.fetch(
            queries.USE_ENTRIES, list(hits), list(hits.values()), self.at
        )
        missing = set(hits) - {row["key"] for row in used}
        if missing:
            raise MissingFromCacheError(frozenset(missing))

    async def _farm(self) -> None:
        await self._run(queries.SET_WORKERS, *_columns(list(self.rows.workers.items()), 2))
        held = [
            (user, queue, right.slots, right.priority)
            for user, rights in self.rows.rights.items()
            for queue, right in rights.items()
        ]
        await self._run(queries.FORGET_RIGHTS, list(self.rows.rights))
        await self._run(queries.ADD_RIGHTS, *_columns(held, 4))
        if self.rows.policy is not None:
            document = json.dumps({"name": self.rows.policy})
            await self.connection.execute(queries.SET_SETTING, loading.POLICY, document)

    def _number(self, last: Mapping[str, int], names: Names) -> list[PublishedEvent]:
        return [
            self._event(experiment, last[experiment] + number, draft, names)
            for experiment, change in self.rows.experiments.items()
            if experiment in last
            for number, draft in enumerate(change.events, start=1)
        ]

    def _event(self, experiment: str, seq: int, draft: EventDraft, names: Names) -> PublishedEvent:
        return PublishedEvent(
            experiment=experiment,
            seq=seq,
            time=self.now,
            kind=draft.kind,
            block=names[draft.block] if draft.block else None,
            details=draft.details,
        )

    async def _events(self, events: list[PublishedEvent]) -> None:
        await _add_events(self.connection, events, self.at)

    async def _purge(self, last: Mapping[str, int]) -> list[PublishedEvent]:
        await self._run(queries.PURGE, self.rows.purged)
        return [
            PublishedEvent(
                experiment=experiment,
                seq=last[experiment] + len(self._drafts(experiment)) + 1,
                time=self.now,
                kind="deleted",
                block=None,
                details={},
            )
            for experiment in self.rows.purged
            if experiment in last
        ]

    def _drafts(self, experiment: str) -> list[EventDraft]:
        return self.rows.experiments[experiment].events


async def _add_events(
    connection: Connection, events: Sequence[PublishedEvent], at: datetime
) -> None:
    if events:
        columns = _columns(
            [(e.experiment, e.seq, e.kind, e.block, json.dumps(e.details)) for e in events], 5
        )
        await connection.execute(queries.ADD_EVENTS, *columns, at)


async def _write_progress(
    connection: Connection, reports: Sequence[Progress], now: float
) -> list[PublishedEvent]:
    by_attempt = {report.attempt: report for report in reports}
    fractions = [report.fraction for report in by_attempt.values()]
    found = await connection.fetch(queries.SET_PROGRESS, list(by_attempt), fractions)
    counts = Counter(str(row["experiment_id"]) for row in found)
    if not counts:
        return []
    nothing = [None] * len(counts)
    numbered = await connection.fetch(
        queries.SET_EXPERIMENTS,
        list(counts),
        nothing,
        list(counts.values()),
        nothing,
        [False] * len(counts),
        _time(now),
    )
    following = {str(row["id"]): row["last_seq"] - counts[str(row["id"])] for row in numbered}
    events = []
    for row in found:
        experiment = str(row["experiment_id"])
        following[experiment] += 1
        report = by_attempt[row["id"]]
        events.append(
            PublishedEvent(
                experiment=experiment,
                seq=following[experiment],
                time=now,
                kind="progress",
                block=row["name"],
                details={"fraction": report.fraction, "message": report.message},
            )
        )
    await _add_events(connection, events, _time(now))
    return events


def _columns(table: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Turn rows into columns, of which there are as many when there are no rows."""
    return [[row[column] for row in table] for column in range(width)]


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value)


def _use_document(one: RecentUse) -> dict[str, Any]:
    return {
        "user": one.user,
        "queue": one.queue,
        "slot_seconds": one.slot_seconds,
        "at": one.at,
    }
