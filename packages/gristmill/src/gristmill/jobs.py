"""What a job is: its attributes, its relations to other jobs, groups of jobs, and their states.

Nothing here knows a manager, and nothing here does I/O beyond reading a script that is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from gristmill import arrays, quantities
from gristmill.arrays import ArraySpec
from gristmill.errors import BadGroup, BadValue


class JobState(StrEnum):
    """The one vocabulary of states, whatever the manager calls them."""

    NEW = "new"  #: not submitted yet
    HELD = "held"  #: a user, an administrator or our own gate holds it
    QUEUED = "queued"
    RUNNING = "running"
    SUSPENDED = "suspended"
    COMPLETING = "completing"  #: the processes are being ended, or files copied
    DONE = "done"  #: ended with exit code 0
    FAILED = "failed"  #: ended with another exit code or by a signal, or could not be started
    CANCELLED = "cancelled"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    NODE_FAILURE = "node failure"
    LOST = "lost"  #: no listing, history or exit record knows it, and the grace period is over

    @property
    def final(self) -> bool:
        """Whether the job has ended and this will not change."""
        return self._value_ in _FINAL_VALUES  # asked for every job at every look


FINAL_STATES = frozenset(
    {
        JobState.DONE,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.TIMED_OUT,
        JobState.OUT_OF_MEMORY,
        JobState.NODE_FAILURE,
        JobState.LOST,
    }
)

_FINAL_VALUES = frozenset(state.value for state in FINAL_STATES)

# For an array or a group: the first of these that any member is in describes the whole.
_PRECEDENCE = (
    JobState.RUNNING,
    JobState.COMPLETING,
    JobState.SUSPENDED,
    JobState.QUEUED,
    JobState.HELD,
    JobState.NEW,
    JobState.LOST,
    JobState.NODE_FAILURE,
    JobState.OUT_OF_MEMORY,
    JobState.TIMED_OUT,
    JobState.FAILED,
    JobState.CANCELLED,
    JobState.DONE,
)


def overall(states: Iterable[JobState]) -> JobState:
    """One state for many: done only when all are done, final only when all are final."""
    found = set(states)
    return next((state for state in _PRECEDENCE if state in found), JobState.NEW)


class Hold(StrEnum):
    """Who may release a hold: the owner, or an operator."""

    USER = "user"
    SYSTEM = "system"


UserHold = Hold.USER
SystemHold = Hold.SYSTEM


class Relation(StrEnum):
    """When a dependent job may start, seen from its target."""

    AFTER_START = "after_start"  #: the target has started (or ended)
    AFTER_OK = "after_ok"  #: the target ended in `done`
    AFTER_NOT_OK = "after_not_ok"  #: the target ended in any other way
    AFTER_ANY = "after_any"  #: the target has ended

    def satisfied_by(self, state: JobState) -> bool | None:
        """Whether a target in `state` lets the dependent start; None while that is open."""
        if self is Relation.AFTER_START:
            started = state in (JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING)
            return True if started or state.final else None
        if not state.final:
            return None
        if self is Relation.AFTER_ANY:
            return True
        return (state is JobState.DONE) == (self is Relation.AFTER_OK)


class MailEvent(StrEnum):
    """When the manager shall write a mail."""

    BEGIN = "begin"
    END = "end"
    ABORT = "abort"  #: the job failed or was killed


@runtime_checkable
class Submitted(Protocol):
    """Anything that stands for a job which a manager already has (a handle)."""

    @property
    def id(self) -> str: ...


Target: TypeAlias = "Job | Submitted | str | int"


@dataclass(frozen=True, slots=True)
class Dependency:
    """One edge. `element_wise`: element i of an array waits for element i of the target."""

    relation: Relation
    target: Job | Submitted | str  #: a job of the same group, a handle, or a native id
    element_wise: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A job's attributes in one form, each None or empty when not asked for.

    Drivers read this and nothing else. Lengths of time are seconds, memory is bytes, times are
    epoch seconds.
    """

    name: str
    script: str | None = None  #: path of the script on this side
    script_text: str | None = None
    command: tuple[str, ...] = ()  #: an argv, in place of a script
    arguments: tuple[str, ...] = ()
    directory: str | None = None  #: working directory on the cluster
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: str | None = None
    stdout: str | None = None  #: may hold %j %A %a %x and %%, see `patterns`
    stderr: str | None = None
    join: bool = False  #: stderr goes where stdout goes
    time: int | None = None
    nodes: int | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None
    cores_per_task: int | None = None
    cores_per_node: int | None = None
    memory: int | None = None  #: for the whole job
    memory_per_core: int | None = None
    gpus: int | None = None  #: for the whole job
    gpu_type: str | None = None
    queue: str | None = None
    account: str | None = None
    project: str | None = None
    reservation: str | None = None
    qos: str | None = None
    priority: int | None = None  #: higher runs earlier; the range is the manager's
    exclusive: bool = False
    features: tuple[str, ...] = ()  #: every one of them, on every node
    node_kind: str | None = None  #: an abstract kind, which the site file explains
    mail_on: frozenset[MailEvent] = frozenset()
    mail_to: str | None = None
    hold: Hold | None = None
    requeue: bool | None = None
    begin: int | None = None
    licences: Mapping[str, int] = field(default_factory=dict)
    array: ArraySpec | None = None
    stage_in: tuple[tuple[str, str], ...] = ()  #: (path here, path there), before submission
    stage_out: tuple[tuple[str, str], ...] = ()  #: (path there, path here), by `Run.fetch`
    native: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  #: raw options per manager

    def asked(self) -> dict[str, Any]:
        """The attributes that are set, by name: what a driver has to account for."""
        return {
            name: value
            for name in _ATTRIBUTES
            if (value := getattr(self, name)) is not None and _is_set(name, value)
        }


def _is_set(name: str, value: Any) -> bool:
    """0 is a priority, and `requeue=False` is a wish; other flags count only when they are on."""
    if isinstance(value, bool):
        return value or name == "requeue"
    if type(value) in (tuple, frozenset, dict):
        return bool(value)
    return True


_ATTRIBUTES = tuple(item.name for item in fields(Spec))
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Job:
    """A job to be submitted: attributes by keyword, relations to other jobs as values.

    `Job("prep.sh", time="1h", nodes=2)`, `Job(command=["make", "all"])`,
    `Job(script_text="#!/bin/sh\\n…")`. Two jobs are equal only when they are the same object.
    Raises BadValue, naming the attribute, when a value makes no sense on any manager.
    """

    __slots__ = ("__weakref__", "dependencies", "spec")

    def __init__(
        self,
        script: str | Path | None = None,
        *,
        name: str | None = None,
        script_text: str | None = None,
        command: Sequence[str] = (),
        arguments: Sequence[str] = (),
        directory: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        stdin: str | Path | None = None,
        stdout: str | Path | None = None,
        stderr: str | Path | None = None,
        join: bool | None = None,
        time: int | float | str | timedelta | None = None,
        nodes: int | None = None,
        tasks: int | None = None,
        tasks_per_node: int | None = None,
        cores_per_task: int | None = None,
        cores_per_node: int | None = None,
        memory: int | str | None = None,
        memory_per_core: int | str | None = None,
        gpus: int | str | None = None,
        queue: str | None = None,
        partition: str | None = None,
        account: str | None = None,
        project: str | None = None,
        reservation: str | None = None,
        qos: str | None = None,
        priority: int | None = None,
        exclusive: bool = False,
        features: str | Sequence[str] = (),
        node_kind: str | None = None,
        mail_on: str | Iterable[str] = (),
        mail_to: str | None = None,
        hold: Hold | str | bool | None = None,
        requeue: bool | None = None,
        begin: float | str | datetime | None = None,
        licences: Mapping[str, int] | Sequence[str] = (),
        array: ArraySpec | int | str | range | Iterable[int] | None = None,
        stage_in: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        stage_out: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        native: Mapping[str, str | Sequence[str]] | None = None,
        after_start: Target | Iterable[Target] = (),
        after_ok: Target | Iterable[Target] = (),
        after_not_ok: Target | Iterable[Target] = (),
        after_any: Target | Iterable[Target] = (),
        each_after_ok: Target | Iterable[Target] = (),
    ) -> None:
        if partition is not None and queue is not None and partition != queue:
            raise BadValue(f"queue {queue!r} and partition {partition!r} are one attribute: choose")
        count, kind = _gpus(gpus)
        self.spec = Spec(
            name=name or _default_name(script, command),
            script=None if script is None else str(script),
            script_text=script_text,
            command=_words("command", command),
            arguments=_words("arguments", arguments),
            directory=_path(directory),
            environment=_environment(environment or {}),
            stdin=_path(stdin),
            stdout=_path(stdout),
            stderr=_path(stderr),
            join=(stderr is None) if join is None else join,
            time=None if time is None else _named("time", quantities.seconds, time),
            nodes=_count("nodes", nodes),
            tasks=_count("tasks", tasks),
            tasks_per_node=_count("tasks_per_node", tasks_per_node),
            cores_per_task=_count("cores_per_task", cores_per_task),
            cores_per_node=_count("cores_per_node", cores_per_node),
            memory=None if memory is None else _named("memory", quantities.bytes_of, memory),
            memory_per_core=None
            if memory_per_core is None
            else _named("memory_per_core", quantities.bytes_of, memory_per_core),
            gpus=count,
            gpu_type=kind,
            queue=_plain("queue", queue if queue is not None else partition),
            account=_plain("account", account),
            project=_plain("project", project),
            reservation=_plain("reservation", reservation),
            qos=_plain("qos", qos),
            priority=priority,
            exclusive=exclusive,
            features=(features,) if isinstance(features, str) else tuple(features),
            node_kind=node_kind,
            mail_on=_mail_events(mail_on),
            mail_to=_plain("mail_to", mail_to),
            hold=_hold(hold),
            requeue=requeue,
            begin=None if begin is None else _named("begin", quantities.moment, begin),
            licences=_licences(licences),
            array=None if array is None else _named("array", arrays.parse, array),
            stage_in=_pairs(stage_in),
            stage_out=_pairs(stage_out),
            native={
                manager: (options,) if isinstance(options, str) else tuple(options)
                for manager, options in (native or {}).items()
            },
        )
        _check(self.spec)
        self.dependencies: tuple[Dependency, ...] = (
            *_edges(Relation.AFTER_START, after_start),
            *_edges(Relation.AFTER_OK, after_ok),
            *_edges(Relation.AFTER_NOT_OK, after_not_ok),
            *_edges(Relation.AFTER_ANY, after_any),
            *_edges(Relation.AFTER_OK, each_after_ok, element_wise=True),
        )

    @classmethod
    def from_spec(cls, spec: Spec, dependencies: Iterable[Dependency] = ()) -> Job:
        """A job of a spec that is already in the one form."""
        _check(spec)
        job = cls.__new__(cls)
        job.spec = spec
        job.dependencies = tuple(dependencies)
        return job

    @property
    def name(self) -> str:
        return self.spec.name

    def depends_on(
        self, target: Target, relation: Relation = Relation.AFTER_OK, *, element_wise: bool = False
    ) -> Job:
        """Add an edge, and give the job back."""
        self.dependencies += tuple(_edges(relation, target, element_wise=element_wise))
        return self

    def evolve(self, **changes: Any) -> Job:
        """A new job with some attributes of the spec replaced and the same relations."""
        return Job.from_spec(replace(self.spec, **changes), self.dependencies)

    def __repr__(self) -> str:
        return f"Job({self.name!r})"

    def to_json(self) -> dict[str, Any]:
        """This job alone as JSON values; its targets are named (see `JobGroup.to_json`)."""
        from gristmill import jobfiles

        return jobfiles.job_to_json(self)


class JobGroup:
    """Jobs and what they wait for: the closure of those given, in an order that can be submitted.

    Raises BadGroup when they wait for each other in a circle.
    """

    def __init__(self, jobs: Job | Iterable[Job] = ()) -> None:
        self.roots = (jobs,) if isinstance(jobs, Job) else tuple(jobs)
        self.jobs = tuple(_ordered(self.roots))

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)

    def __contains__(self, job: object) -> bool:
        return any(job is member for member in self.jobs)

    def __getitem__(self, name: str) -> Job:
        found = [job for job in self.jobs if job.name == name]
        if len(found) != 1:
            raise KeyError(f"{len(found)} jobs of this group are named {name!r}")
        return found[0]

    def __repr__(self) -> str:
        return f"JobGroup({list(self.jobs)!r})"

    def to_json(self) -> dict[str, Any]:
        """The group as JSON values, read back by `JobGroup.from_json`."""
        from gristmill import jobfiles

        return jobfiles.group_to_json(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> JobGroup:
        """The group that `to_json` wrote. Raises BadValue naming what cannot be read."""
        from gristmill import jobfiles

        return jobfiles.group_from_json(value)


GroupOfJobs = JobGroup


def create_job(job_script: str | Path, jobs_specs: Mapping[str, Any] | None = None) -> Job:
    """The seed's constructor: a script and a mapping of attributes."""
    return Job(job_script, **dict(jobs_specs or {}))


def _ordered(roots: Sequence[Job]) -> Iterator[Job]:
    """The closure, targets first; among equals in the order in which they were given."""
    graph: dict[int, list[int]] = {}
    known: dict[int, Job] = {}
    waiting = list(reversed(roots))
    while waiting:
        job = waiting.pop()
        if id(job) in known:
            continue
        known[id(job)] = job
        targets = [edge.target for edge in job.dependencies if isinstance(edge.target, Job)]
        graph[id(job)] = [id(target) for target in targets]
        waiting.extend(reversed(targets))
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        names = " -> ".join(known[key].name for key in error.args[1])
        raise BadGroup(f"these jobs wait for each other in a circle: {names}") from None
    return (known[key] for key in order)


def _edges(
    relation: Relation, targets: Target | Iterable[Target], *, element_wise: bool = False
) -> Iterator[Dependency]:
    if isinstance(targets, (Job, str, int, Submitted)):
        targets = [targets]
    for target in targets:
        if isinstance(target, int):
            target = str(target)
        if not isinstance(target, (Job, str, Submitted)):
            raise BadValue(f"{relation}: {target!r} is no job, no handle and no job id")
        yield Dependency(relation, target, element_wise)


def _default_name(script: str | Path | None, command: Sequence[str]) -> str:
    if script is not None:
        return Path(script).name
    return Path(command[0]).name if command and not isinstance(command, str) else "job"


def _named(attribute: str, read: Any, value: Any) -> Any:
    try:
        return read(value)
    except BadValue as error:
        raise BadValue(f"{attribute}: {error}") from None
    except (TypeError, ValueError, OverflowError):
        raise BadValue(f"{attribute}: {value!r} cannot be read") from None


def _count(attribute: str, value: int | None) -> int | None:
    if value is not None and (type(value) is not int or value < 1):
        raise BadValue(f"{attribute} must be a whole number above 0, not {value!r}")
    return value


def _words(attribute: str, value: Sequence[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise BadValue(f"{attribute} is a list of words, not one text: write ['prog', 'argument']")
    words = tuple(str(word) for word in value)
    if any("\0" in word for word in words):
        raise BadValue(f"{attribute} holds a NUL character, which no program can be given")
    return words


def _plain(attribute: str, value: str | None) -> str | None:
    """Text that a directive line can hold."""
    if value is not None and (not value or re.search(r"[\x00-\x1f]", value)):
        raise BadValue(f"{attribute} must be text without control characters, not {value!r}")
    return value


def _path(value: str | Path | None) -> str | None:
    if value is not None and re.search(r"[\x00\n\r]", str(value)):
        raise BadValue(f"{str(value)!r} cannot be a path in a job: it holds a line break or NUL")
    return None if value is None else str(value)


def _environment(value: Mapping[str, str]) -> dict[str, str]:
    for name, text in value.items():
        if not _ENVIRONMENT_NAME.fullmatch(name):
            raise BadValue(f"environment: {name!r} is not the name of a variable")
        if "\0" in str(text):
            raise BadValue(f"environment: the value of {name} holds a NUL character")
    return {name: str(text) for name, text in value.items()}


def _gpus(value: int | str | None) -> tuple[int | None, str | None]:
    """`4`, or `"a100:4"`."""
    if isinstance(value, str):
        kind, _, count = value.rpartition(":")
        if not count.isdigit():
            raise BadValue(f"gpus: {value!r} cannot be read; write 4 or 'a100:4'")
        return _count("gpus", int(count)), kind or None
    return _count("gpus", value), None


def _mail_events(value: str | Iterable[str]) -> frozenset[MailEvent]:
    words = re.split(r"[\s,]+", value) if isinstance(value, str) else list(value)
    try:
        return frozenset(MailEvent(word) for word in words if word)
    except ValueError:
        raise BadValue(f"mail_on: {value!r}: choose among begin, end, abort") from None


def _hold(value: Hold | str | bool | None) -> Hold | None:
    if value is None or value is False:
        return None
    try:
        return Hold.USER if value is True else Hold(str(value))
    except ValueError:
        raise BadValue(f"hold: {value!r}: choose 'user' or 'system'") from None


def _licences(value: Mapping[str, int] | Sequence[str]) -> dict[str, int]:
    """`{"matlab": 2}` or `["matlab:2", "ansys"]`."""
    if isinstance(value, Mapping):
        return dict(value)
    pairs = (text.partition(":") for text in ([value] if isinstance(value, str) else value))
    return {name: int(count or 1) for name, _, count in pairs}


def _pairs(value: Mapping[str, str] | Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    items = value.items() if isinstance(value, Mapping) else value
    return tuple((str(source), str(target)) for source, target in items)


def _check(spec: Spec) -> None:
    """What no single attribute can see."""
    bodies = [spec.script is not None, spec.script_text is not None, bool(spec.command)]
    if sum(bodies) != 1:
        raise BadValue(f"job {spec.name!r} needs one of script, script_text and command")
    if not spec.name or re.search(r"[\x00-\x1f]", spec.name):
        raise BadValue(f"name must be text without control characters, not {spec.name!r}")
    if spec.memory is not None and spec.memory_per_core is not None:
        raise BadValue("memory and memory_per_core exclude each other: choose one")
    if spec.join and spec.stderr is not None:
        raise BadValue(f"join sends stderr to stdout, but stderr is {spec.stderr!r}: choose one")
    if spec.tasks_per_node is not None and spec.nodes and spec.tasks is not None:
        least = -(-spec.tasks // spec.tasks_per_node)
        if spec.nodes < least:
            raise BadValue(
                f"{spec.tasks} tasks at {spec.tasks_per_node} a node need {least} nodes, "
                f"not {spec.nodes}"
            )
