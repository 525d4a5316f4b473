"""The client: a manager's dialect joined to a transport. What `connect` gives.

`ResourceManager` blocks, `AsyncResourceManager` is awaited; both run the same flows of `engine`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from gristmill import registry
from gristmill.engine import acting, flows, gate, planning, submitting, telling, watching
from gristmill.engine.core import Core
from gristmill.engine.entries import Entry, Part, RunEntry, marked, replay
from gristmill.engine.flows import Flow, Policy
from gristmill.engine.planning import Plan
from gristmill.errors import UnknownJob, WaitTimeout
from gristmill.jobfiles import spec_to_json
from gristmill.jobs import Hold, Job, JobGroup, JobState, Spec, Submitted, overall
from gristmill.journal import Journal
from gristmill.managers.base import Dialect, Rendering, Request
from gristmill.records import Accounting, Node, Outcome, Queue, Record, Why
from gristmill.site import Site
from gristmill.transports.base import Transport
from gristmill.transports.threaded import AsyncTransport

T = TypeVar("T")
H = TypeVar("H", bound="_Handle")
Jobs: TypeAlias = Job | JobGroup | Iterable[Job]
Callback: TypeAlias = Callable[["Change"], object]


class _Handle:
    """A job that the manager has."""

    def __init__(self, client: _Client, entry: Entry, job: Job | None = None) -> None:
        self._client = client
        self._entry = entry
        self.job = job

    @property
    def id(self) -> str:
        """The manager's id of it."""
        return self._entry.id

    @property
    def name(self) -> str:
        return self._entry.spec.name

    @property
    def spec(self) -> Spec:
        return self._entry.spec

    @property
    def record(self) -> Record:
        """What was known at the last look; `status()` looks again."""
        return self._entry.record

    @property
    def state(self) -> JobState:
        """The state at the last look."""
        return self._entry.record.state

    @property
    def run_id(self) -> str:
        return self._entry.run

    def to_json(self) -> dict[str, Any]:
        """Id, name, state and attributes as JSON values."""
        record = self._entry.record
        return {
            "id": self.id,
            "name": self.name,
            "state": str(record.state),
            "exit_code": record.exit_code,
            "run": self.run_id,
            "spec": spec_to_json(self.spec),
        }

    def __repr__(self) -> str:
        return f"<job {self.id} {self.name!r} {self.state}>"


class Change:
    """A job whose state has changed, as `watch` and callbacks tell it."""

    __slots__ = ("after", "before", "handle")

    def __init__(self, handle: _Handle, before: Record, after: Record) -> None:
        self.handle = handle
        self.before = before
        self.after = after

    def __repr__(self) -> str:
        return f"<{self.handle.name} {self.handle.id}: {self.before.state} -> {self.after.state}>"


class _Run(Generic[H]):
    """What was submitted together: a mapping from jobs (or names) to handles."""

    def __init__(self, client: _Client, entry: RunEntry, handles: Sequence[H]) -> None:
        self._client = client
        self._entry = entry
        self.handles = tuple(handles)

    @property
    def id(self) -> str:
        """The id by which a later process resumes it."""
        return self._entry.id

    @property
    def state(self) -> JobState:
        """One state for all, at the last look."""
        return overall(handle.state for handle in self.handles)

    def __iter__(self) -> Iterator[H]:
        return iter(self.handles)

    def __len__(self) -> int:
        return len(self.handles)

    def __getitem__(self, job: Job | str) -> H:
        wanted = [h for h in self.handles if h.job is job or h.name == job]
        if len(wanted) != 1:
            raise KeyError(f"{len(wanted)} jobs of this run are {job!r}")
        return wanted[0]

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.id,
            "state": str(self.state),
            "jobs": [handle.to_json() for handle in self.handles],
        }

    def __repr__(self) -> str:
        return f"<run {self.id}: {len(self.handles)} jobs, {self.state}>"


class _Client:
    """What both clients share: everything but how a flow is run."""

    dialect_name: ClassVar[str] = ""  #: set in classes for one manager, such as `Slurm`

    def __init__(
        self,
        dialect: Dialect | str | None = None,
        transport: Transport | None = None,
        *,
        site: Site | None = None,
        journal: Journal | None = None,
        policy: Policy | None = None,
        interval: float | None = None,
        url: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        known = dialect or self.dialect_name
        if isinstance(known, str):
            known = registry.dialect(known)
        self._transport = transport or registry.default_transport(known)
        self.url = url
        self.core = Core(
            dialect=known,
            site=site or Site(),
            journal=journal or Journal.of(f"{self._transport.name}/{known.name}"),
            policy=policy or Policy(),
            directory=self._transport.directory,
            clock=clock,
            interval=interval,
        )
        self._callbacks: list[Callback] = []
        self._entries: WeakKeyDictionary[Job, Entry] = WeakKeyDictionary()
        self._runs: dict[str, RunEntry] = {}

    @property
    def dialect(self) -> Dialect:
        return self.core.dialect

    @property
    def name(self) -> str:
        """The manager's name."""
        return self.core.dialect.name

    def on_change(self, callback: Callback) -> None:
        """Call this whenever a look shows that a job's state has changed."""
        self._callbacks.append(callback)

    def plan(self, jobs: Jobs) -> Plan:
        """What `submit` would send: scripts, commands, the fate of each attribute. Asks nothing."""
        new, given = self._split(jobs)
        return planning.plan(self.core, new, given)

    def render(self, job: Job) -> Rendering:
        """The script and command of one job alone, without its relations."""
        spec = self.core.site.resolve(job.spec)
        body = planning.read_body(spec)
        return self.dialect.render(
            Request(spec=spec, token="0" * 16, body=body, now=self.core.clock())
        )

    # -- for the two clients

    def _split(self, jobs: Jobs) -> tuple[list[Job], dict[Job, Entry]]:
        """Jobs to submit, in order, and those that this client has submitted already."""
        group = jobs if isinstance(jobs, JobGroup) else JobGroup(jobs)
        roots = set(map(id, group.roots))
        new = [job for job in group if job not in self._entries or id(job) in roots]
        given = {job: self._entries[job] for job in group if job in self._entries}
        return new, {job: entry for job, entry in given.items() if id(job) not in roots}

    def _submit(self, jobs: Jobs) -> Flow[tuple[RunEntry, list[Job]]]:
        new, given = self._split(jobs)
        run = yield from submitting.submit(self.core, new, given)
        for job, entry in zip(new, run.entries, strict=True):
            self._entries[job] = entry
        self._runs[run.id] = run
        return run, new

    def _refresh(self, entries: Sequence[Entry]) -> Flow[list[watching.Change]]:
        """One look at these jobs, and one pass of the gate over their runs."""
        runs = self._gated_runs(entries)
        if not runs:
            return (yield from watching.refresh(self.core, entries))
        wanted = dict.fromkeys(entries)
        for run in runs:  # the gate must know the state of every target
            wanted.update(dict.fromkeys(run.entries))
        before = {entry: entry.record for entry in wanted}
        yield from watching.refresh(self.core, list(wanted))
        yield from gate.tend(self.core, runs)
        return [
            watching.Change(entry, before[entry], entry.record)
            for entry in entries
            if watching.differs(before[entry], entry.record)
        ]

    def _gated_runs(self, entries: Iterable[Entry]) -> list[RunEntry]:
        ids = dict.fromkeys([entry.run for entry in entries])
        runs = [self._runs[id] for id in ids if id in self._runs]
        return [run for run in runs if gate.has_gated(run)]

    def _tell(self, changes: Iterable[Change]) -> list[Change]:
        told = list(changes)
        for change in told:
            for callback in self._callbacks:
                callback(change)
        return told

    def _journalled(self) -> dict[str, RunEntry]:
        """The runs of the journal, with ours in place of what it says of them."""
        return {**replay(self.core.journal.events()), **self._runs}

    def _resume(self, run_id: str) -> Flow[RunEntry]:
        runs = self._journalled()
        wanted = [id for id in runs if id.startswith(run_id)]
        if len(wanted) != 1:
            raise UnknownJob(f"{len(wanted)} runs of the journal begin with {run_id!r}")
        run = self._runs.setdefault(wanted[0], runs[wanted[0]])
        yield from submitting.recover(self.core, run)
        return run

    def _attach(self, id: str) -> Flow[Entry]:
        """The journal's entry for this id, else one made from what the manager says."""
        canonical = self.dialect.canonical(id)
        for run in reversed(self._journalled().values()):
            for entry in run.entries:
                if any(part.id == canonical for part in entry.parts):
                    self._runs.setdefault(run.id, run)
                    return entry
        records = yield from watching.look_up(self.core, [canonical])
        if canonical not in records:
            raise UnknownJob(f"{self.name} knows no job {id}, and its history neither")
        entry = next(watching.strangers([canonical]))
        entry.parts[0].record = records[canonical]
        entry.parts[0].seen = self.core.clock()
        return entry

    def _entries_of(self, targets: Iterable[object]) -> Flow[list[Entry]]:
        """Handles, runs, jobs and native ids as entries."""
        found: list[Entry] = []
        for target in targets:
            match target:
                case _Handle():
                    found.append(target._entry)
                case _Run():
                    found.extend(handle._entry for handle in target.handles)
                case Job() if target in self._entries:
                    found.append(self._entries[target])
                case Job():
                    raise UnknownJob(f"{target!r} was not submitted by this client")
                case str() | int():
                    found.append((yield from self._attach(str(target))))
                case Submitted():
                    found.append((yield from self._attach(target.id)))
                case _:
                    raise UnknownJob(f"{target!r} is no job, handle, run or id")
        return found

    def _act(
        self, action: acting.Action, targets: Iterable[object], kind: Hold = Hold.USER
    ) -> Flow[dict[str, Outcome]]:
        entries = yield from self._entries_of(targets)
        parts = [(e, p) for e in entries for p in e.parts if p.id is not None and not p.settled]
        done = {p.id: Outcome.ALREADY_FINAL for e in entries for p in e.parts if p.id and p.settled}
        if action == "release":
            parts = [(entry, part) for entry, part in parts if not part.gated]
        if action == "cancel":
            self._mark_cancelled(parts)
        ids = [part.id for _, part in parts if part.id is not None]
        outcomes = yield from acting.act(self.core, action, ids, kind)
        return done | outcomes

    def _mark_cancelled(self, parts: Iterable[tuple[Entry, Part]]) -> None:
        """Before it is sent: a job that we ended must not be taken for a failed one."""
        for entry, part in parts:
            part.cancelled = True
            if entry.run:
                self.core.journal.append(marked("cancelled", entry.run, [part.token]))

    def _signal(self, targets: Iterable[object], name: str) -> Flow[dict[str, Outcome]]:
        entries = yield from self._entries_of(targets)
        ids = [part.id for entry in entries for part in entry.parts if part.id is not None]
        return (yield from acting.send_signal(self.core, ids, name))

    def _status(self, targets: Iterable[object]) -> Flow[tuple[list[Entry], list[watching.Change]]]:
        entries = yield from self._entries_of(targets)
        return entries, (yield from self._refresh(entries))

    def _pause(self, turn: int, left: float | None) -> float:
        """Short looks at first, then the polite interval."""
        wanted = min(self.core.poll_interval, 0.2 * 1.5 ** min(turn, 20))
        if self.core.site.interval is not None:
            wanted = max(wanted, self.core.site.interval)
        return wanted if left is None else max(0.0, min(wanted, left))


def _open(entries: Iterable[Entry]) -> int:
    return sum(1 for entry in entries if not entry.state.final)


class JobHandle(_Handle):
    """A job that the manager has, and what can be done with it."""

    _client: ResourceManager

    def status(self) -> Record:
        """Look, and say."""
        return self._client.status(self)[self.id]

    def hold(self, kind: Hold = Hold.USER) -> Outcome:
        return self._client.hold(self, kind=kind)[self.id]

    def release(self, kind: Hold = Hold.USER) -> Outcome:
        return self._client.release(self, kind=kind).get(self.id, Outcome.OK)

    def cancel(self) -> Outcome:
        return self._client.cancel(self)[self.id]

    def signal(self, name: str) -> Outcome:
        return self._client.signal(self, name=name)[self.id]

    def wait(self, timeout: float | None = None) -> Record:
        """Until it has ended. Raises WaitTimeout."""
        self._client.wait(self, timeout=timeout)
        return self.record

    def why(self) -> Why:
        return self._client.why(self)

    def accounting(self) -> Accounting:
        return self._client.accounting(self)

    def estimate(self) -> float | None:
        return self._client.estimate(self)

    def log(self, stream: str = "stdout", index: int | None = None) -> bytes:
        """What it, or one element of it, has written so far."""
        return self._client.log(self, stream, index)


class Run(_Run[JobHandle]):
    """What was submitted together, and what can be done with all of it."""

    _client: ResourceManager

    def status(self) -> dict[str, Record]:
        """Look at all of them with as few questions as can be; by id."""
        return self._client.status(self)

    def wait(self, timeout: float | None = None) -> JobState:
        """Until all have ended; gives the state of the whole. Raises WaitTimeout."""
        self._client.wait(self, timeout=timeout)
        return self.state

    def hold(self, kind: Hold = Hold.USER) -> dict[str, Outcome]:
        return self._client.hold(self, kind=kind)

    def release(self, kind: Hold = Hold.USER) -> dict[str, Outcome]:
        return self._client.release(self, kind=kind)

    def cancel(self) -> dict[str, Outcome]:
        return self._client.cancel(self)

    def fetch(self) -> list[str]:
        """Copy the files named in `stage_out` here; gives their paths."""
        return [path for handle in self.handles for path in self._client.fetch(handle)]


class ResourceManager(_Client):
    """A resource manager: the seed's class, with its names `submit_job` and `hold_job` too.

    `ResourceManager("slurm")` talks to the Slurm installed here; `connect` takes URLs. It is a
    context manager that closes its transport; jobs live on.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection. Jobs live on."""
        self._transport.close()
        self.core.journal.close()

    def _do(self, flow: Flow[T]) -> T:
        return flows.drive(flow, self._transport)

    def _handle(self, entry: Entry, job: Job | None = None) -> JobHandle:
        return JobHandle(self, entry, job)

    def submit(self, jobs: Jobs) -> Run:
        """Submit jobs and all that they wait for, held in order, then released; all or nothing.

        Raises Unsupported or DependencyNeverSatisfied before anything is sent; SubmitFailed after
        taking back what was sent; for a single job the manager's own error.
        """
        run, new = self._do(self._submit(jobs))
        handles = [self._handle(e, job) for e, job in zip(run.entries, new, strict=True)]
        self._keep_gate(run)
        return Run(self, run, handles)

    def _keep_gate(self, run: RunEntry) -> None:
        """Dependencies that we enforce must be enforced when this process is gone, too."""
        if self.url is not None and gate.has_gated(run):
            from gristmill import gatekeeper

            gatekeeper.start(self.url, self.core.journal)

    def status(self, *targets: object) -> dict[str, Record]:
        """The records of many jobs (handles, runs, jobs, ids) in as few questions as can be."""
        entries, changes = self._do(self._status(targets))
        if self._callbacks:
            self._tell(Change(self._handle(c.entry), c.before, c.after) for c in changes)
        return {entry.id: entry.record for entry in entries}

    def hold(self, *targets: object, kind: Hold = Hold.USER) -> dict[str, Outcome]:
        return self._do(self._act("hold", targets, kind))

    def release(self, *targets: object, kind: Hold = Hold.USER) -> dict[str, Outcome]:
        return self._do(self._act("release", targets, kind))

    def cancel(self, *targets: object) -> dict[str, Outcome]:
        """End jobs. To cancel one that has ended is no error."""
        return self._do(self._act("cancel", targets))

    def signal(self, *targets: object, name: str) -> dict[str, Outcome]:
        """Send a signal (`"USR1"`) to the script of running jobs."""
        return self._do(self._signal(targets, name))

    def watch(self, *targets: object, timeout: float | None = None) -> Iterator[Change]:
        """Changes as they are seen, until all have ended; one question for all per interval."""
        entries = self._do(self._entries_of(targets))
        end = None if timeout is None else self.core.clock() + timeout
        turn = 0
        while True:
            changes = self._do(self._refresh(entries))
            yield from self._tell(Change(self._handle(c.entry), c.before, c.after) for c in changes)
            if not _open(entries):
                return
            turn = 0 if changes else turn + 1
            left = None if end is None else end - self.core.clock()
            if left is not None and left <= 0:
                raise WaitTimeout(f"{_open(entries)} jobs had not ended after {timeout} s")
            time.sleep(self._pause(turn, left))

    def wait(self, *targets: object, timeout: float | None = None) -> None:
        """Until all have ended. Raises WaitTimeout."""
        for _ in self.watch(*targets, timeout=timeout):
            pass

    def attach(self, id: str | int) -> JobHandle:
        """A handle for a job by its native id, whoever submitted it. Raises UnknownJob."""
        return self._handle(self._do(self._attach(str(id))))

    def runs(self) -> list[Run]:
        """What the journal knows, oldest first."""
        runs = self._journalled()
        self._runs.update(runs)
        return [Run(self, run, [self._handle(e) for e in run.entries]) for run in runs.values()]

    def resume(self, run_id: str) -> Run:
        """Pick a run up in a later process; a submission that was cut short is mended first."""
        run = self._do(self._resume(run_id))
        return Run(self, run, [self._handle(entry) for entry in run.entries])

    def tend(self) -> bool:
        """One look and one pass of the gate over every run that waits for it; whether one does."""
        self._runs.update(self._journalled())
        runs = [run for run in self._runs.values() if gate.has_gated(run)]
        self._do(self._refresh([entry for run in runs for entry in run.entries]))
        return any(gate.has_gated(run) for run in runs)

    def why(self, target: object) -> Why:
        """Why it waits or how it ended, with evidence."""
        (entry,) = self._do(self._entries_of([target]))
        return self._do(telling.why(self.core, entry))

    def accounting(self, target: object) -> Accounting:
        """What it used."""
        (entry,) = self._do(self._entries_of([target]))
        return self._do(telling.accounting(self.core, entry, entry.parts[0]))

    def estimate(self, target: object) -> float | None:
        """When the manager expects it to start, epoch seconds. Raises Unsupported."""
        (entry,) = self._do(self._entries_of([target]))
        return self._do(telling.estimate(self.core, entry))

    def log(self, target: object, stream: str = "stdout", index: int | None = None) -> bytes:
        """What it has written so far. Raises FileNotFoundError."""
        (entry,) = self._do(self._entries_of([target]))
        return self._do(telling.log(self.core, entry, stream, index))

    def fetch(self, target: object) -> list[str]:
        """Copy the files of its `stage_out` here; gives their paths."""
        (entry,) = self._do(self._entries_of([target]))
        return _write_all(self._do(telling.fetch(entry)))

    def queues(self) -> tuple[Queue, ...]:
        return self._do(telling.queues(self.core))

    def nodes(self) -> tuple[Node, ...]:
        return self._do(telling.nodes(self.core))

    def clean(self, days: int = 30) -> None:
        """Remove the exit records and staged files that are older; shorten the journal."""
        self._do(telling.clean(days))
        self.core.journal.shorten()

    # -- the seed's names

    def submit_job(self, job: Job, job_attrs: Mapping[str, Any] | None = None) -> JobHandle:
        """The seed's `submit_job`: one job, with some attributes replaced."""
        wanted = job.evolve(**job_attrs) if job_attrs else job
        return self.submit(wanted)[wanted]

    def hold_job(self, job: object, hold_type: Hold = Hold.USER) -> Outcome:
        """The seed's `hold_job`."""
        return next(iter(self.hold(job, kind=hold_type).values()))


class AsyncJobHandle(_Handle):
    """As JobHandle, awaited."""

    _client: AsyncResourceManager

    async def status(self) -> Record:
        return (await self._client.status(self))[self.id]

    async def hold(self, kind: Hold = Hold.USER) -> Outcome:
        return (await self._client.hold(self, kind=kind))[self.id]

    async def release(self, kind: Hold = Hold.USER) -> Outcome:
        return (await self._client.release(self, kind=kind)).get(self.id, Outcome.OK)

    async def cancel(self) -> Outcome:
        return (await self._client.cancel(self))[self.id]

    async def signal(self, name: str) -> Outcome:
        return (await self._client.signal(self, name=name))[self.id]

    async def wait(self, timeout: float | None = None) -> Record:
        await self._client.wait(self, timeout=timeout)
        return self.record

    async def why(self) -> Why:
        return await self._client.why(self)

    async def accounting(self) -> Accounting:
        return await self._client.accounting(self)

    async def estimate(self) -> float | None:
        return await self._client.estimate(self)

    async def log(self, stream: str = "stdout", index: int | None = None) -> bytes:
        return await self._client.log(self, stream, index)


class AsyncRun(_Run[AsyncJobHandle]):
    """As Run, awaited."""

    _client: AsyncResourceManager

    async def status(self) -> dict[str, Record]:
        return await self._client.status(self)

    async def wait(self, timeout: float | None = None) -> JobState:
        await self._client.wait(self, timeout=timeout)
        return self.state

    async def hold(self, kind: Hold = Hold.USER) -> dict[str, Outcome]:
        return await self._client.hold(self, kind=kind)

    async def release(self, kind: Hold = Hold.USER) -> dict[str, Outcome]:
        return await self._client.release(self, kind=kind)

    async def cancel(self) -> dict[str, Outcome]:
        return await self._client.cancel(self)

    async def fetch(self) -> list[str]:
        return [path for handle in self.handles for path in await self._client.fetch(handle)]


class AsyncResourceManager(_Client):
    """As ResourceManager, on an event loop."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._async = AsyncTransport(self._transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._async.close()
        self.core.journal.close()

    async def _do(self, flow: Flow[T]) -> T:
        return await flows.adrive(flow, self._async)

    def _handle(self, entry: Entry, job: Job | None = None) -> AsyncJobHandle:
        return AsyncJobHandle(self, entry, job)

    async def submit(self, jobs: Jobs) -> AsyncRun:
        run, new = await self._do(self._submit(jobs))
        handles = [self._handle(e, job) for e, job in zip(run.entries, new, strict=True)]
        if self.url is not None and gate.has_gated(run):
            from gristmill import gatekeeper

            await asyncio.to_thread(gatekeeper.start, self.url, self.core.journal)
        return AsyncRun(self, run, handles)

    async def status(self, *targets: object) -> dict[str, Record]:
        entries, changes = await self._do(self._status(targets))
        if self._callbacks:
            self._tell(Change(self._handle(c.entry), c.before, c.after) for c in changes)
        return {entry.id: entry.record for entry in entries}

    async def hold(self, *targets: object, kind: Hold = Hold.USER) -> dict[str, Outcome]:
        return await self._do(self._act("hold", targets, kind))

    async def release(self, *targets: object, kind: Hold = Hold.USER) -> dict[str, Outcome]:
        return await self._do(self._act("release", targets, kind))

    async def cancel(self, *targets: object) -> dict[str, Outcome]:
        return await self._do(self._act("cancel", targets))

    async def signal(self, *targets: object, name: str) -> dict[str, Outcome]:
        return await self._do(self._signal(targets, name))

    async def watch(
        self,
        *targets: object,
        timeout: float | None = None,
    ) -> AsyncIterator[Change]:
        entries = await self._do(self._entries_of(targets))
        end = None if timeout is None else self.core.clock() + timeout
        turn = 0
        while True:
            changes = await self._do(self._refresh(entries))
            for change in self._tell(
                Change(self._handle(c.entry), c.before, c.after) for c in changes
            ):
                yield change
            if not _open(entries):
                return
            turn = 0 if changes else turn + 1
            left = None if end is None else end - self.core.clock()
            if left is not None and left <= 0:
                raise WaitTimeout(f"{_open(entries)} jobs had not ended after {timeout} s")
            await asyncio.sleep(self._pause(turn, left))

    async def wait(self, *targets: object, timeout: float | None = None) -> None:
        async for _ in self.watch(*targets, timeout=timeout):
            pass

    async def attach(self, id: str | int) -> AsyncJobHandle:
        return self._handle(await self._do(self._attach(str(id))))

    def runs(self) -> list[AsyncRun]:
        runs = self._journalled()
        self._runs.update(runs)
        return [AsyncRun(self, r, [self._handle(e) for e in r.entries]) for r in runs.values()]

    async def resume(self, run_id: str) -> AsyncRun:
        run = await self._do(self._resume(run_id))
        return AsyncRun(self, run, [self._handle(entry) for entry in run.entries])

    async def tend(self) -> bool:
        self._runs.update(self._journalled())
        runs = [run for run in self._runs.values() if gate.has_gated(run)]
        await self._do(self._refresh([entry for run in runs for entry in run.entries]))
        return any(gate.has_gated(run) for run in runs)

    async def why(self, target: object) -> Why:
        (entry,) = await self._do(self._entries_of([target]))
        return await self._do(telling.why(self.core, entry))

    async def accounting(self, target: object) -> Accounting:
        (entry,) = await self._do(self._entries_of([target]))
        return await self._do(telling.accounting(self.core, entry, entry.parts[0]))

    async def estimate(self, target: object) -> float | None:
        (entry,) = await self._do(self._entries_of([target]))
        return await self._do(telling.estimate(self.core, entry))

    async def log(self, target: object, stream: str = "stdout", index: int | None = None) -> bytes:
        (entry,) = await self._do(self._entries_of([target]))
        return await self._do(telling.log(self.core, entry, stream, index))

    async def fetch(self, target: object) -> list[str]:
        (entry,) = await self._do(self._entries_of([target]))
        return _write_all(await self._do(telling.fetch(entry)))

    async def queues(self) -> tuple[Queue, ...]:
        return await self._do(telling.queues(self.core))

    async def nodes(self) -> tuple[Node, ...]:
        return await self._do(telling.nodes(self.core))

    async def clean(self, days: int = 30) -> None:
        await self._do(telling.clean(days))
        self.core.journal.shorten()


def _write_all(files: Mapping[str, bytes]) -> list[str]:
    for path, data in files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(data)
    return list(files)
