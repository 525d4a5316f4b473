"""What managers tell: the state of a job, why it is so, what it used, queues and nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from gristmill.jobs import JobState, overall


class Cause(StrEnum):
    """Why a job waits or how it ended, in one vocabulary."""

    # waiting
    HELD_BY_USER = "held by its owner"
    HELD_BY_OPERATOR = "held by an operator or the system"
    GATE = "held by our own gate until its dependencies are satisfied"
    DEPENDENCY = "waits for another job"
    DEPENDENCY_NEVER = "waits for something that can no longer happen"
    PRIORITY = "others come first"
    RESOURCES = "waits for free resources"
    LIMIT = "a limit of the user, account or queue is reached"
    THROTTLE = "the array's own throttle is reached"
    BEGIN_TIME = "its begin time has not come"
    RESERVATION = "waits for its reservation"
    LICENCES = "waits for licences"
    QUEUE_CLOSED = "the queue is closed or stopped"
    NODES_AWAY = "the nodes it needs are down or drained"
    IMPOSSIBLE = "no node or queue can ever run it as asked"
    # ended
    SUCCESS = "ended with exit code 0"
    EXIT_CODE = "ended with another exit code"
    SIGNAL = "ended by a signal"
    CANCELLED = "cancelled"
    TIME_LIMIT = "ran into its time limit"
    MEMORY_LIMIT = "used more memory than asked for"
    NODE_FAILURE = "a node failed"
    PREEMPTED = "gave way to another job"
    LAUNCH_FAILURE = "could not be started"
    VANISHED = "the manager no longer knows it, and it left no record"
    UNKNOWN = "the manager gives no reason"


class Source(StrEnum):
    """Where a record comes from, from the strongest evidence to the weakest."""

    LIVE = "live listing"
    HISTORY = "history"
    EXIT_FILE = "exit record written by the job"
    JOURNAL = "journal"
    GRACE = "nothing yet"  #: known to nobody, but submitted or seen a moment ago
    NONE = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known of one job or of one element of an array.

    `id` is the manager's canonical id; an element has `index` and the `array_id` of its array.
    Times are epoch seconds. `token` is the marker of our own submission, where listed.
    """

    id: str
    state: JobState
    native_state: str = ""
    cause: Cause | None = None
    reason: str = ""  #: the manager's own words
    exit_code: int | None = None
    signal: int | None = None
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    nodes: tuple[str, ...] = ()
    queue: str | None = None
    array_id: str | None = None
    index: int | None = None
    token: str | None = None
    source: Source = Source.LIVE
    elements: tuple[Record, ...] = ()  #: of an array, by index


@dataclass(frozen=True, slots=True)
class Listing:
    """The answer to a status or history query.

    `records` come in any order. `unknown` are ids which the manager says outright that it does
    not know; an id in neither is merely absent, which proves nothing. `complete` is False when
    the output was cut short or partly unreadable.
    """

    records: tuple[Record, ...] = ()
    unknown: frozenset[str] = frozenset()
    complete: bool = True


class Outcome(StrEnum):
    """How an action (hold, release, cancel, signal) went for one job."""

    OK = "ok"
    ALREADY_FINAL = "already ended"
    UNKNOWN = "not known"
    DENIED = "denied"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """What a job used. None is: the manager does not say. Seconds, bytes, epoch seconds."""

    id: str
    state: JobState | None = None
    exit_code: int | None = None
    signal: int | None = None
    wall: float | None = None
    cpu: float | None = None
    peak_memory: int | None = None
    nodes: tuple[str, ...] = ()
    cores: int | None = None
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    queue: str | None = None
    account: str | None = None
    source: Source = Source.HISTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue, partition or class. None is: no limit, or the manager does not say."""

    name: str
    open: bool = True  #: takes jobs and starts them
    default: bool = False
    max_time: int | None = None
    default_time: int | None = None
    nodes: int | None = None
    running: int | None = None
    waiting: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine of the cluster. Memory is bytes."""

    name: str
    state: str  #: the manager's word
    up: bool
    cores: int | None = None
    free_cores: int | None = None
    memory: int | None = None
    gpus: int | None = None
    features: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job waits or how it ended: the cause, and the lines that show it."""

    state: JobState
    cause: Cause
    evidence: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return f"{self.state}: {self.cause}" + "".join(f"\n  {line}" for line in self.evidence)


_CAUSE_OF_END = {
    JobState.DONE: Cause.SUCCESS,
    JobState.CANCELLED: Cause.CANCELLED,
    JobState.TIMED_OUT: Cause.TIME_LIMIT,
    JobState.OUT_OF_MEMORY: Cause.MEMORY_LIMIT,
    JobState.NODE_FAILURE: Cause.NODE_FAILURE,
    JobState.LOST: Cause.VANISHED,
}


def cause_of(record: Record) -> Cause:
    """The record's cause, or what follows from its state alone."""
    if record.cause is not None:
        return record.cause
    if record.state is JobState.FAILED:
        return Cause.SIGNAL if record.signal else Cause.EXIT_CODE
    if record.state is JobState.HELD:
        return Cause.HELD_BY_USER
    return _CAUSE_OF_END.get(record.state, Cause.UNKNOWN)


def of_wait_status(status: int) -> tuple[int, int | None]:
    """Exit code and signal from a raw wait status: 768 is exit 3, 9 is signal 9.

    An exit code above 128 is a signal too: it is how shells, and our wrapper, tell of one.
    """
    if number := status & 0x7F:
        return 128 + number, number
    return status >> 8, of_exit_code(status >> 8)


def of_exit_code(code: int) -> int | None:
    """The signal that an exit code of a shell stands for (137 is 9), or None."""
    return code - 128 if 128 < code < 160 else None


def joined(array_id: str, elements: Iterable[Record], expected: int | None = None) -> Record:
    """One record for an array: its elements, and a state for the whole.

    `expected` is how many elements it has; fewer found means that it has not ended as a whole.
    """
    members = tuple(sorted(elements, key=lambda element: element.index or 0))
    state = overall(member.state for member in members)
    if expected is not None and len(members) < expected and state.final:
        state = JobState.QUEUED
    first_bad = next((m for m in members if m.state is state and m.state.final), None)
    starts = [member.started for member in members if member.started is not None]
    ends = [member.ended for member in members if member.ended is not None]
    speaker = first_bad or next((m for m in members if m.state is state), members[0])
    return Record(
        id=array_id,
        state=state,
        native_state=speaker.native_state,
        cause=speaker.cause,
        reason=speaker.reason,
        exit_code=_worst_exit(members) if state.final else None,
        signal=speaker.signal,
        submitted=speaker.submitted,
        started=min(starts, default=None),
        ended=max(ends, default=None) if state.final else None,
        nodes=tuple(sorted({node for member in members for node in member.nodes})),
        queue=speaker.queue,
        token=speaker.token,
        source=speaker.source,
        elements=members,
    )


def _worst_exit(members: tuple[Record, ...]) -> int | None:
    codes = [member.exit_code for member in members if member.exit_code is not None]
    return max(codes, default=None)
