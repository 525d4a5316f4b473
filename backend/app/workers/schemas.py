"""What goes over the wire about workers and their credentials (for administrators)."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict

from backend.app.texts import PlainName
from backend.scheduler.core.model import WorkerState


class WorkerEnvironmentView(BaseModel):
    """An environment that a worker found on itself."""

    name: str
    version: str
    os: str


class WorkerView(BaseModel):
    """A worker, as it said of itself when it registered."""

    id: UUID
    name: str
    host: str
    cores: int
    memory_mb: int
    executor: str
    sandbox: str
    limits: str
    version: str
    shares_cache: bool
    state: WorkerState
    last_seen: datetime | None
    environments: list[WorkerEnvironmentView]
    running: int  #: jobs that are with it
    created_at: datetime
    revision: int


class WorkerCredentialView(BaseModel):
    """The long-lived secret of a worker's name, without the secret."""

    id: UUID
    worker_name: str
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None
    revoked_at: datetime | None


class NewWorkerCredential(BaseModel):
    """A credential to make; `gristmill worker --token` takes it."""

    model_config = ConfigDict(extra="forbid")
    worker_name: PlainName
    expires_at: AwareDatetime | None = None


class MadeWorkerCredential(WorkerCredentialView):
    """A credential just made; its secret is shown this once."""

    token: str
