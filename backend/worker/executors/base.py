"""What the worker asks of an executor; it knows no more of how jobs run.

The worker lays out the job folder (sources, libraries, database files) and says where the inputs
are; the executor brings them into place, writes job.json, runs the environment's executable and
tells a `Listener` what happens on the way. When `wait` returns, no process of the job is left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from gristmill.protocol import Limits, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """An environment of this worker, found and tried."""

    name: str
    version: str
    os: str
    packages: dict[str, str]
    executable: tuple[str, ...]
    binds: tuple[str, ...]  #: folders it needs to see
    standby: bool  #: it can be started before there is a job


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedJob:
    """One job, ready to run. Paths in `job` are relative to the job folder."""

    attempt: str
    folder: Path
    job: dict[str, Any]  #: job.json, but for `messages_fd`
    environment: Environment
    limits: Limits
    inputs: tuple[tuple[Path, str], ...] = ()  #: (file here, its place in the job folder)
    root: Path | None = None  #: a folder on this machine with a database's files
    block: str = ""  #: name, for people who look at a cluster's queue
    queue: str = ""  #: name of the platform's queue


class Reason(StrEnum):
    """Why the executor ended a job before its time; said before the kill, never guessed after."""

    CANCELLED = "cancelled"
    RETURNED = "returned"  # the worker drains and hands it back
    FENCED = "fenced"  # no longer the worker's: nobody wants to hear of it
    TIME = "time limit"
    MEMORY = "memory limit"
    DISK = "disk quota"
    PROCESSES = "process limit"
    NO_SPACE = "no space left"  # on the worker's disk, whoever filled it
    LOST = "lost"  # the resource manager ended it, or nobody can say what became of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the processes of a job ended."""

    exit_code: int | None  #: 128 + n after signal n; None when the executor cannot know
    reason: Reason | None
    usage: Usage
    detail: str = ""  #: what the reason was measured by
    at: float | None = None  #: epoch seconds, where that was not just now


class Listener(Protocol):
    """Hears of a running job. Called from the thread that waits for the job."""

    def started(self, native_id: str | None = None, at: float | None = None) -> None:
        """The job's process really runs, since `at` (epoch seconds) if that was not just now."""

    def progress(self, fraction: float, message: str | None) -> None:
        """So much is done (0 to 1)."""

    def log(self, stream: str, text: str) -> None:
        """The job wrote to "stdout" or "stderr"."""


class Handle(Protocol):
    """A job that was started."""

    def wait(self) -> Ended:
        """Follow the job to its end, telling the listener; no process is left afterwards."""

    def kill(self, reason: Reason) -> None:
        """Have the job ended soon; returns at once. The first reason given holds."""

    def usage(self) -> Usage:
        """What the job has taken so far."""


class Executor(Protocol):
    """Starts jobs."""

    name: str  #: "process", or the resource manager's
    sandbox: str  #: "bubblewrap" or "none"
    limits: str  #: how the memory limit is held
    durable: bool  #: its jobs go on when the worker is gone

    def start(self, job: PreparedJob, listener: Listener) -> Handle:
        """Start a job. Raises CannotStart where it is the worker's fault that it does not."""

    def survivors(self) -> tuple[PreparedJob, ...]:
        """Jobs that an earlier process of this worker started, and whose end nobody has heard."""

    def pick_up(self, job: PreparedJob, listener: Listener) -> Handle:
        """Follow one of the survivors; the listener hears again all that it has said."""

    def forget(self, attempt: str) -> None:
        """The job's last report is on disk: keep nothing of it."""

    def close(self, *, leave: bool = False) -> None:
        """End what was started ahead of need; `leave`: `wait` raises Left, and jobs go on."""


class Left(Exception):
    """The worker stops and leaves the job running, for its next process to pick up."""


class CannotStart(Exception):
    """The worker could not start a job: a fault of the worker, not of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """What one job may take besides its queue's limits."""

    disk_bytes: int = 20 * 2**30  #: in the job folder
    files: int = 100_000  #: in the job folder
    open_files: int = 1024
    processes: int = 512
    temporary_bytes: int = 2**30  #: in /tmp and /dev/shm each; counted as memory
    log_bytes: int = 8 * 2**20  #: kept of a job's output; the rest is counted and dropped
    free_bytes: int = 256 * 2**20  #: of the worker's disk that no job may eat into


@dataclass(slots=True)
class Measured:
    """The highest readings of a job so far."""

    memory_bytes: int = 0
    user_seconds: float = 0.0
    system_seconds: float = 0.0
    readings: int = field(default=0)
