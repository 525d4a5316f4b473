"""Bodies of the worker protocol: the dataclasses of `gristmill.protocol`, checked and bounded."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from backend.scheduler.core.events import Outcome
from backend.scheduler.core.model import FailureKind

AttemptId = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[0-9A-Za-z.-]+$")]
Running = Annotated[tuple[AttemptId, ...], Field(max_length=10_000)]
Bytes = Annotated[int, Field(ge=0, lt=2**62)]
Seconds = Annotated[float, Field(ge=0, le=10**9, allow_inf_nan=False)]
Plain = Annotated[str, Field(max_length=200)]


class Message(BaseModel):
    """A message of the protocol; fields that we do not know yet are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class FoundEnvironment(Message):
    """An environment that the worker found on itself."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    version: Annotated[str, Field(min_length=1, max_length=50)]
    os: Plain = ""
    packages: Annotated[dict[str, str], Field(max_length=20_000)] = {}


class Register(Message):
    """A worker's first call."""

    protocol: int
    name: Annotated[str, Field(min_length=1, max_length=100)]
    host: Annotated[str, Field(max_length=255)]
    cores: Annotated[int, Field(ge=1, le=1_000_000)]
    memory_mb: Annotated[int, Field(ge=1, le=2**31 - 1)]
    executor: Annotated[str, Field(max_length=50)]
    sandbox: Annotated[str, Field(max_length=50)]
    limits: Annotated[str, Field(max_length=50)]
    version: Annotated[str, Field(max_length=50)]
    environments: Annotated[tuple[FoundEnvironment, ...], Field(max_length=1000)]
    running: Running = ()
    cache_nonce: Annotated[str, Field(max_length=100)] | None = None


class Registered(Message):
    """The answer: who the worker is from now on."""

    worker: str
    session: str
    token: str
    token_seconds: int
    heartbeat_seconds: float
    lease_seconds: float
    shared_cache: bool
    forget: tuple[str, ...] = ()


class Heartbeat(Message):
    """The worker lives."""

    session: str
    running: Running
    draining: bool = False


class HeartbeatReply(Message):
    """A new token, and what to stop."""

    token: str
    token_seconds: int
    cancel: tuple[str, ...] = ()
    drain: bool = False


class Poll(Message):
    """The worker asks for something to do."""

    session: str
    wait: Seconds
    running: Running


class PollReply(Message):
    """What to do; assignments as `gristmill.protocol.Assignment`."""

    assignments: list[dict[str, Any]] = []
    cancel: tuple[str, ...] = ()
    drain: bool = False

    @staticmethod
    def of(assignments: Any, cancel: tuple[str, ...], drain: bool) -> PollReply:
        """Make the reply of protocol dataclasses."""
        return PollReply(
            assignments=[asdict(assignment) for assignment in assignments],
            cancel=cancel,
            drain=drain,
        )


class OutputFile(Message):
    """A file that a job wrote."""

    output: Annotated[str, Field(min_length=1, max_length=200)]
    first: Bytes
    last: Bytes
    rows: Bytes
    size: Bytes
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    path: Annotated[str, Field(min_length=1, max_length=200)]


class Usage(Message):
    """What a job took."""

    wall_seconds: Seconds = 0.0
    cpu_user_seconds: Seconds = 0.0
    cpu_system_seconds: Seconds = 0.0
    peak_memory_mb: Seconds = 0.0
    bytes_read: Bytes = 0
    bytes_written: Bytes = 0


class JobFailure(Message):
    """Why a job failed; texts that are too long are cut, not refused."""

    kind: FailureKind
    message: str
    trace: str | None = None


class Report(Message):
    """Something that happened to an attempt."""

    kind: Literal["started", "progress", "log", "finished"]
    attempt: AttemptId
    time: Plain = ""
    fraction: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    message: str | None = None
    stream: Literal["stdout", "stderr"] | None = None
    start: Bytes | None = None
    text: str | None = None
    outcome: Outcome | None = None
    failure: JobFailure | None = None
    exit_code: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None = None
    usage: Usage | None = None
    outputs: Annotated[tuple[OutputFile, ...], Field(max_length=1000)] = ()
    results: dict[str, Any] | None = None
    native_id: Plain | None = None


class Reports(Message):
    """Reports, in order."""

    session: str
    reports: Annotated[tuple[Report, ...], Field(max_length=10_000)]


class ReportsReply(Message):
    """For each report, in order, "taken" or why it was not."""

    answers: tuple[str, ...]
    cancel: tuple[str, ...] = ()
