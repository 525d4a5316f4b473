"""What goes over the wire about queues and slot shares."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from backend.app.texts import DisplayName, Markdown

Memory = Annotated[int, Field(ge=1, le=2**30, description="MiB, of one slot")]
TimeLimit = Annotated[int, Field(ge=1, le=366 * 24 * 3600, description="seconds, of one job")]
Slots = Annotated[int, Field(ge=0, le=1_000_000)]
Cores = Annotated[int, Field(ge=1, le=10_000)]
EnvironmentIds = Annotated[list[UUID], Field(min_length=1, max_length=200)]


class OfferedEnvironment(BaseModel):
    """An environment that a queue offers."""

    id: UUID
    name: str
    version: str
    os: str


class QueueView(BaseModel):
    """A queue."""

    id: UUID
    name: str
    description: str
    memory_mb: int
    time_limit_seconds: int
    slots_per_worker: int = Field(description="at most, where no slot share says otherwise")
    cores_per_slot: int
    environments: list[OfferedEnvironment]
    default_environment_id: UUID
    created_at: datetime
    revision: int


class NewQueue(BaseModel):
    """A queue to make."""

    model_config = ConfigDict(extra="forbid")
    name: DisplayName
    description: Markdown = ""
    memory_mb: Memory
    time_limit_seconds: TimeLimit
    slots_per_worker: Slots
    cores_per_slot: Cores = 1
    environment_ids: EnvironmentIds = Field(description="those that it offers")
    default_environment_id: UUID | None = Field(
        default=None, description="one of them; the first when left out"
    )


class QueueChange(BaseModel):
    """What to change of a queue; what is left out stays."""

    model_config = ConfigDict(extra="forbid")
    name: DisplayName = "-"
    description: Markdown = ""
    memory_mb: Memory = 1
    time_limit_seconds: TimeLimit = 1
    slots_per_worker: Slots = 0
    cores_per_slot: Cores = 1
    environment_ids: EnvironmentIds = []
    default_environment_id: UUID = UUID(int=0)


class UsableQueue(BaseModel):
    """A queue on which you have a right to at least one slot, and where your right comes from."""

    id: UUID
    name: str
    description: str
    memory_mb: int
    time_limit_seconds: int
    cores_per_slot: int
    environments: list[OfferedEnvironment]
    default_environment: UUID
    slots: int = Field(description="that you may hold: your right, times reputation, capped")
    priority: int
    base_slots: int = Field(description="the largest right of your groups, before reputation")
    slots_from: str = Field(description="group that gives the slots")
    priority_from: str = Field(description="group that gives the priority")
    reputation: int = Field(description="percent")
    total_slots: int = Field(description="of the queue, over all workers")
    waiting: int = Field(description="blocks of everybody that wait for a slot here")
    running: int = Field(description="jobs of everybody that are with a worker")


class SlotShareView(BaseModel):
    """Slots of a queue on one worker, instead of the queue's own number."""

    queue_id: UUID
    queue: str
    worker_id: UUID
    worker: str
    slots: int


class SlotShareChange(BaseModel):
    """The share to set."""

    model_config = ConfigDict(extra="forbid")
    slots: Slots
