"""A manager that is only pretended, for tests of programs that submit jobs: no process runs.

```python
fake = FakeManager(outcomes={"solve": 1, "tidy": JobState.TIMED_OUT})
with fake.client() as rm:
    run = rm.submit(...)
    run.wait()
```
Every look at the jobs is a step: what runs ends, what may start starts. `auto=False` leaves that to
`step()`. It can be made to lack what managers lack (`relations`, `arrays`, `throttle`), and to err
as they do (`lose_answers`, `empty_listings`, `busy`, `forget`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gristmill import arrays
from gristmill.commands import Ask, Command, Output
from gristmill.engine.flows import Policy
from gristmill.errors import HistoryUnavailable, Transient, Unclear
from gristmill.jobs import Hold, JobState, Relation, overall
from gristmill.journal import Journal, MemoryJournal
from gristmill.managers.base import Features
from gristmill.managers.local import PROGRAM, LocalDialect, listing_of
from gristmill.records import Cause, Listing, Outcome
from gristmill.service import ResourceManager
from gristmill.transports.base import Transport


class FakeDialect(LocalDialect):
    """The local manager's language, with a history and faults."""

    name = "fake"
    title = "a fake manager"
    faults = (("busy", Transient), ("lost", Unclear), ("no history", HistoryUnavailable))

    def __init__(self, features: Features, keeps_history: bool) -> None:
        self.features = features  # type: ignore[misc]  # one instance, its own abilities
        self._keeps_history = keeps_history

    def history(self, ids: Any, since: float) -> Ask[Listing] | None:
        if not self._keeps_history:
            return None
        given = json.dumps({"ids": list(ids)}).encode()
        return Ask(Command((PROGRAM, "history"), given), self.parse_history)

    def parse_history(self, out: Output) -> Listing:
        return listing_of(self._json(out))


@dataclass(slots=True)
class _Task:
    state: JobState
    hold: str | None
    index: int
    exit_code: int | None = None
    cause: str | None = None
    started: float | None = None
    ended: float | None = None


@dataclass(slots=True)
class _Job:
    id: str
    given: dict[str, Any]
    tasks: list[_Task]
    submitted: float
    throttle: int | None = None
    listed: bool = True

    @property
    def state(self) -> JobState:
        return overall(task.state for task in self.tasks)


@dataclass(slots=True)
class FakeManager(Transport):
    """See the module. `jobs` are all that were submitted, by id; `now` is its clock, in seconds."""

    outcomes: Mapping[str, int | JobState] = field(default_factory=dict)
    relations: frozenset[Relation] = frozenset(Relation)
    element_wise: bool = True
    arrays: bool = True
    throttle: bool = True
    keeps_history: bool = False
    leaves_exit_records: bool = True
    slots: int = 1_000_000
    auto: bool = True
    now: float = 1_900_000_000.0
    jobs: dict[str, _Job] = field(default_factory=dict)
    ran: list[Command] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    lose_answers: int = 0  #: submissions that are made but answered with an error
    lose_submissions: int = 0  #: submissions that are answered in the same way, but not made
    empty_answers: int = 0  #: submissions that are made and answered with nothing
    busy: int = 0  #: commands of any kind that are refused for now
    empty_listings: int = 0  #: listings that show no job at all
    exits: dict[str, str] = field(default_factory=dict)
    name: str = "fake"
    directory: str = ""

    def client(self, *, journal: Journal | None = None, **options: Any) -> ResourceManager:
        """A client of it that never sleeps."""
        quick = Policy(first_delay=0, max_delay=0, lookups=(0, 0), parallel=2)
        settings = {"policy": quick, "interval": 0.0, "clock": lambda: self.now, **options}
        return ResourceManager(self.dialect(), self, journal=journal or MemoryJournal(), **settings)

    def dialect(self) -> FakeDialect:
        """The driver, with the abilities that this manager was made with."""
        features = replace(
            LocalDialect.features,
            relations=self.relations,
            element_wise=self.element_wise,
            arrays=self.arrays,
            throttle=self.throttle,
        )
        return FakeDialect(features, self.keeps_history)

    def step(self) -> None:
        """What runs ends; what can never run is cancelled; what may start starts."""
        self.now += 1
        for job in self.jobs.values():
            for task in job.tasks:
                if task.state is JobState.RUNNING:
                    self._end(job, task)
        for job in self.jobs.values():
            for task in job.tasks:
                self._consider(job, task)

    def running(self) -> list[str]:
        """The names of what runs now, one for each element."""
        return [
            job.given["name"]
            for job in self.jobs.values()
            for task in job.tasks
            if task.state is JobState.RUNNING
        ]

    def forget(self, *ids: str) -> None:
        """The listing no longer shows these jobs; a history does, if there is one."""
        for id in ids:
            self.jobs[id].listed = False

    # -- the transport

    def run(self, command: Command) -> Output:
        self.ran.append(command)
        if command.argv[0] != PROGRAM:
            return self._shell(command)
        if self.busy:
            self.busy -= 1
            return Output(stderr=b"the manager is busy\n", rc=1)
        given = json.loads(command.stdin or b"{}")
        answer = getattr(self, f"_{command.argv[1]}")(given)
        return answer if isinstance(answer, Output) else Output(json.dumps(answer).encode())

    def put(self, path: str, data: bytes, *, executable: bool = False) -> None:
        self.files[path] = data

    def get(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def close(self) -> None:
        """Nothing is open."""

    def has(self, command: str) -> bool:
        return command == PROGRAM

    def _shell(self, command: Command) -> Output:
        """Exit records are all that is read by other commands."""
        names = (command.stdin or b"").decode().split()
        found = [f"== {name}\n{self.exits[name]}" for name in names if name in self.exits]
        return Output("".join(found).encode())

    # -- the verbs of the local manager

    def _submit(self, given: dict[str, Any]) -> Any:
        if self.lose_submissions:
            self.lose_submissions -= 1
            return Output(stderr=b"the answer was lost\n", rc=1)
        spec = arrays.parse(given["array"]) if given["array"] else None
        state = JobState.HELD if given["hold"] else JobState.QUEUED
        job = _Job(
            str(len(self.jobs) + 1),
            given,
            [_Task(state, given["hold"], index) for index in (spec or [-1])],
            self.now,
            spec.throttle if spec else None,
        )
        self.jobs[job.id] = job
        if self.lose_answers:
            self.lose_answers -= 1
            return Output(stderr=b"the answer was lost\n", rc=1)
        if self.empty_answers:
            self.empty_answers -= 1
            return Output()
        return {"id": job.id}

    def _status(self, given: dict[str, Any]) -> Any:
        if self.auto:
            self.step()
        if self.empty_listings:
            self.empty_listings -= 1
            return []
        return self._rows(job for job in self._chosen(given["ids"]) if job.listed)

    def _history(self, given: dict[str, Any]) -> Any:
        return self._rows(job for job in self._chosen(given["ids"]) if job.state.final)

    def _find(self, given: dict[str, Any]) -> Any:
        tokens = {job.given["token"]: job.id for job in self.jobs.values()}
        return {"id": tokens.get(given["token"])}

    def _hold(self, given: dict[str, Any]) -> Any:
        return self._each(given, JobState.QUEUED, JobState.HELD, given["kind"])

    def _release(self, given: dict[str, Any]) -> Any:
        return self._each(given, JobState.HELD, JobState.QUEUED, None)

    def _cancel(self, given: dict[str, Any]) -> Any:
        found = {}
        for id in given["ids"]:
            tasks = [task for job in self._chosen([id]) for task in job.tasks]
            live = [task for task in tasks if not task.state.final]
            for task in live:
                task.state, task.ended = JobState.CANCELLED, self.now
            found[id] = Outcome.OK if live else self._missing(id)
        return found

    def _signal(self, given: dict[str, Any]) -> Any:
        return {id: Outcome.OK if id in self.jobs else Outcome.UNKNOWN for id in given["ids"]}

    def _machine(self, given: dict[str, Any]) -> Any:
        used = len(self.running())
        told = {"slots": self.slots, "free": self.slots - used, "running": used, "waiting": 0}
        return {"name": "fake", "memory": 0, "gpus": 0, **told}

    def _each(
        self, given: dict[str, Any], old: JobState, new: JobState, hold: str | None
    ) -> dict[str, Outcome]:
        found = {}
        for id in given["ids"]:
            changed = [t for job in self._chosen([id]) for t in job.tasks if t.state is old]
            for task in changed:
                task.state, task.hold = new, hold
            found[id] = Outcome.OK if changed else self._missing(id)
        return found

    def _missing(self, id: str) -> Outcome:
        job = self.jobs.get(id)
        if job is None:
            return Outcome.UNKNOWN
        return Outcome.ALREADY_FINAL if job.state.final else Outcome.OK

    def _chosen(self, ids: Iterable[str]) -> list[_Job]:
        return [self.jobs[id] for id in ids if id in self.jobs]

    def _rows(self, jobs: Iterable[_Job]) -> list[dict[str, Any]]:
        return [
            {
                "job": job.id,
                "idx": task.index,
                "is_array": task.index >= 0,
                "state": task.state,
                "hold": task.hold or (Hold.USER if task.state is JobState.HELD else None),
                "cause": task.cause,
                "exit_code": task.exit_code,
                "signal": None,
                "submitted": job.submitted,
                "started": task.started,
                "ended": task.ended,
                "token": job.given["token"],
                "cpu": None,
                "peak": None,
            }
            for job in jobs
            for task in job.tasks
        ]

    def _end(self, job: _Job, task: _Task) -> None:
        outcome = self.outcomes.get(job.given["name"], 0)
        if isinstance(outcome, JobState):
            task.state = outcome
        else:
            task.state = JobState.FAILED if outcome else JobState.DONE
            task.exit_code = outcome
            self._leave_record(job, task, outcome)
        task.ended = self.now

    def _leave_record(self, job: _Job, task: _Task, code: int) -> None:
        if self.leaves_exit_records:
            name = job.given["token"] + (f".{task.index}" if task.index >= 0 else "")
            self.exits[name] = f"exit={code}\nend={self.now}\nid={job.id}\n"

    def _consider(self, job: _Job, task: _Task) -> None:
        if task.state not in (JobState.QUEUED, JobState.HELD):
            return
        verdicts = [self._verdict(edge, task) for edge in job.given["dependencies"]]
        if False in verdicts:
            task.state, task.ended = JobState.CANCELLED, self.now
            task.cause = Cause.DEPENDENCY_NEVER.value
        elif task.state is JobState.QUEUED and all(verdicts) and self._has_room(job):
            task.state, task.started = JobState.RUNNING, self.now

    def _verdict(self, edge: list[Any], task: _Task) -> bool | None:
        relation, id, element_wise = edge
        tasks = self.jobs[id].tasks
        states = [t.state for t in tasks if not element_wise or t.index == task.index]
        return Relation(relation).satisfied_by(overall(states))

    def _has_room(self, job: _Job) -> bool:
        own = sum(1 for task in job.tasks if task.state is JobState.RUNNING)
        throttled = job.throttle is not None and own >= job.throttle
        return not throttled and len(self.running()) < self.slots
