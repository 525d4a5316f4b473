"""What server and worker say to each other: one definition for both.

Plain frozen dataclasses, so that the worker needs nothing to write them (`dump`) and the server
checks them with pydantic. Times are RFC 3339 in UTC, durations seconds, memory MiB, sizes bytes.
Every call but `register` carries the short token that registration or the last heartbeat gave.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

VERSION = 1  #: of this protocol; the server refuses a worker that speaks another


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEnvironment:
    """An environment that the worker found on itself."""

    name: str
    version: str
    os: str = ""
    packages: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """POST /api/v1/worker/register, with the worker's credential as bearer."""

    protocol: int
    name: str
    host: str
    cores: int
    memory_mb: int
    executor: str  #: "process", or the name of a resource manager
    sandbox: str  #: "bubblewrap" or "none"
    limits: str  #: how the memory limit is held: "cgroup-v2", "cgroup-v1", "polling", "manager"
    version: str  #: of the worker's software
    environments: tuple[FoundEnvironment, ...]
    running: tuple[str, ...] = ()  #: attempts that survived the worker's own restart
    cache_nonce: str | None = None  #: name of a file the worker wrote to <cache>/proof/


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The answer: who the worker is from now on. An earlier process of that name is fenced."""

    worker: str  #: id
    session: str  #: id of this registration
    token: str  #: short-lived JWT, role worker
    token_seconds: int
    heartbeat_seconds: float
    lease_seconds: float  #: silent for longer, and the worker is lost
    shared_cache: bool  #: the server read back the nonce: both see one cache folder
    forget: tuple[str, ...] = ()  #: of `running`: attempts it no longer holds; kill them


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """POST /api/v1/worker/heartbeat."""

    session: str
    running: tuple[str, ...]  #: attempts
    draining: bool = False  #: the worker itself wants to stop (SIGTERM)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply:
    """The answer to a heartbeat."""

    token: str
    token_seconds: int
    cancel: tuple[str, ...] = ()  #: attempts to kill (or that are no longer the worker's)
    drain: bool = False  #: an administrator asks the worker to take nothing new


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """POST /api/v1/worker/poll: waits up to `wait` seconds for something to do."""

    session: str
    wait: float
    running: tuple[str, ...]  #: attempts; counts as a heartbeat


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one job."""

    memory_mb: int
    time_seconds: int
    cores: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file below the cache folder."""

    path: str  #: relative, as the server chose it; never made of user text
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file that the job needs, and where job.json expects it inside the job folder."""

    stored: StoredFile
    path: str  #: relative to the job folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One job for the worker."""

    attempt: str
    experiment: str
    experiment_name: str
    owner: str
    block: str  #: name
    environment: tuple[str, str]  #: name, version
    limits: Limits
    job: dict[str, Any]  #: job.json, complete but for the worker's own paths
    files: dict[str, str]  #: text files to write into the job folder: sources and libraries
    inputs: tuple[InputFile, ...]
    queue: str = ""  #: name, for workers that have a cluster's queue for it


@dataclass(frozen=True, slots=True, kw_only=True)
class PollReply:
    """The answer to a poll."""

    assignments: tuple[Assignment, ...] = ()
    cancel: tuple[str, ...] = ()
    drain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """A file that a job wrote, stored or uploaded before the report that names it."""

    output: str
    first: int  #: data units, both ends included
    last: int
    rows: int
    size: int
    sha256: str
    path: str  #: relative to the incoming folder of the attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a job took."""

    wall_seconds: float = 0.0
    cpu_user_seconds: float = 0.0
    cpu_system_seconds: float = 0.0
    peak_memory_mb: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailure:
    """Why a job failed; `kind` is one of the core's FailureKind values."""

    kind: str
    message: str
    trace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Something that happened to an attempt.

    kind: "started", "progress" (fraction, message), "log" (text, stream, start), or "finished"
    (outcome "done", "failed", "cancelled" or "returned"). A report may come twice or late; the
    server answers which it took.
    """

    kind: str
    attempt: str
    time: str
    fraction: float | None = None
    message: str | None = None
    stream: str | None = None  #: "stdout" or "stderr"
    start: int | None = None  #: characters before this piece in the attempt's log
    text: str | None = None
    outcome: str | None = None
    failure: JobFailure | None = None
    exit_code: int | None = None
    usage: Usage | None = None
    outputs: tuple[OutputFile, ...] = ()
    results: dict[str, Any] | None = None  #: of an analyzer
    native_id: str | None = None  #: of the resource manager's job, where one runs it


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """POST /api/v1/worker/reports: in order, any number."""

    session: str
    reports: tuple[Report, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportsReply:
    """For each report, in order, "taken" or why it was not ("stale: …")."""

    answers: tuple[str, ...]
    cancel: tuple[str, ...] = ()


def dump(message: Any) -> dict[str, Any]:
    """Return a message as what `json.dumps` takes."""
    return asdict(message)
