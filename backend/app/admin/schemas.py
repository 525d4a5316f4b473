"""What goes over the wire between the server and administrators, and the monitor of everybody."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from backend.scheduler.core.model import WorkerState

Level = Literal["DEBUG", "INFO", "WARNING", "ERROR"]


class In(BaseModel):
    """What comes in: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


class QueueLoad(BaseModel):
    """A queue and how full it is."""

    id: UUID
    name: str
    slots_total: int
    slots_used: int
    waiting: int
    running: int


class UserLoad(BaseModel):
    """What a user holds of a queue, and what of theirs waits."""

    user_id: UUID
    username: str
    queue_id: UUID
    queue: str
    slots: int = Field(description="the right")
    priority: int
    held: int
    waiting: int


class WorkerJob(BaseModel):
    """A job on a worker; names are of what the reader may see."""

    experiment_id: UUID | None = None
    experiment: str | None = None
    owner: str | None = None
    block: str | None = None


class WorkerLoad(BaseModel):
    """A worker and what it has free."""

    id: UUID
    name: str
    state: WorkerState
    cores: int
    cores_free: int
    memory_mb: int
    memory_free_mb: int
    running: list[WorkerJob]
    resting: list[str] = Field(description="environments it failed to provide lately")


class SchedulerState(BaseModel):
    """What the scheduler holds now."""

    ready: bool
    policy: str
    policies: list[str]
    experiments: int
    waiting: int
    running: int
    queues: list[QueueLoad]
    users: list[UserLoad]
    workers: list[WorkerLoad]
    tally: dict[str, float] = Field(description="counted since the scheduler started")


class CancelAll(In):
    """The confirmation must be typed."""

    confirm: Literal["cancel all"]


class Cancelled(BaseModel):
    """How many experiments were told to stop."""

    experiments: int


class Policy(BaseModel):
    """The scheduling policy in force."""

    policy: str
    available: list[str]


class PolicyIn(In):
    """The policy to use from the next pass on."""

    policy: str = Field(max_length=100)


class LogLevel(BaseModel):
    """A logger's level; `until` when it was changed and goes back by itself."""

    logger: str = Field(description="empty: the root, of which all others are below")
    level: str
    until: datetime | None = None


class LogLevels(BaseModel):
    """The loggers of this process."""

    items: list[LogLevel]


class LogLevelIn(In):
    """A level to set; without one, the logger goes back at once."""

    logger: str = Field(default="", max_length=200, pattern=r"^[A-Za-z0-9_.]*$")
    level: Level | None = None
    seconds: int = Field(default=900, ge=1, le=86_400, description="after which it goes back")


class FoundEnvironment(BaseModel):
    """An environment that a worker found on itself."""

    name: str
    version: str
    os: str


class MonitoredWorker(BaseModel):
    """A worker as everybody sees it."""

    id: UUID
    name: str
    host: str
    state: WorkerState
    cores: int
    memory_mb: int
    executor: str
    sandbox: str = Field(description='"none" when jobs are not locked in')
    limits: str
    version: str
    last_seen: datetime | None
    environments: list[FoundEnvironment]
    running: list[WorkerJob]


class Monitor(BaseModel):
    """Queues and workers, for everybody."""

    queues: list[QueueLoad]
    workers: list[MonitoredWorker]
