"""Every table. What the words mean is in docs; states and their rules come from the core."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Index,
    LargeBinary,
    MetaData,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field, SQLModel

from backend.app.db.ids import uuid7
from backend.scheduler.core import blocks, experiments
from backend.scheduler.core.model import WorkerState

SQLModel.metadata.naming_convention = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
metadata: MetaData = SQLModel.metadata


def _one_of(column: str, values: Any) -> str:
    return f"{column} IN ({', '.join(repr(str(v)) for v in values)})"


def _id() -> Any:
    return Field(default_factory=uuid7, primary_key=True)


def _time(*, nullable: bool = True, index: bool = False) -> Any:
    return Field(default=None, sa_type=DateTime(timezone=True), nullable=nullable, index=index)


def _json(*, nullable: bool = False) -> Any:
    return Field(default=None if nullable else ..., sa_type=JSONB, nullable=nullable)


def _text(*, default: Any = "", nullable: bool = False) -> Any:
    return Field(default=default, sa_type=Text, nullable=nullable)


def _to(target: str, *, cascade: bool = False, primary_key: bool = False, **more: Any) -> Any:
    return Field(
        foreign_key=target,
        ondelete="CASCADE" if cascade else "RESTRICT",
        primary_key=primary_key,
        **more,
    )


class Editable(SQLModel):
    """A row that people edit: `revision` is its ETag."""

    created_at: datetime = _time(nullable=False)
    revision: int = Field(default=1, nullable=False)


# ---- people -------------------------------------------------------------------------------


class User(Editable, table=True):
    """Somebody who signs in."""

    __tablename__ = "user_account"
    id: UUID = _id()
    username: str = Field(max_length=64, unique=True)
    email: str = Field(max_length=254, default="")
    password_hash: str = _text()
    reputation: int = Field(default=100)  #: percent, 100 = neutral
    active: bool = True
    admin: bool = False


class Group(Editable, table=True):
    """A set of users that rights are given to."""

    __tablename__ = "user_group"
    id: UUID = _id()
    name: str = Field(max_length=64, unique=True)
    description: str = _text()


class GroupMember(SQLModel, table=True):
    """A user is in a group; every user is in `default`."""

    __tablename__ = "group_member"
    group_id: UUID = _to("user_group.id", cascade=True, primary_key=True)
    user_id: UUID = _to("user_account.id", cascade=True, primary_key=True, index=True)


class BrowserSession(SQLModel, table=True):
    """A signed-in browser; the cookie's value is stored only as SHA-256."""

    __tablename__ = "browser_session"
    id: UUID = _id()
    secret_hash: bytes = Field(sa_column=Column(LargeBinary, unique=True, nullable=False))
    user_id: UUID = _to("user_account.id", cascade=True, index=True)
    created_at: datetime = _time(nullable=False)
    used_at: datetime = _time(nullable=False)
    expires_at: datetime = _time(nullable=False)


class RefreshToken(SQLModel, table=True):
    """A refresh token; using one twice revokes its whole family."""

    __tablename__ = "refresh_token"
    id: UUID = _id()
    family: UUID = Field(index=True)
    secret_hash: bytes = Field(sa_column=Column(LargeBinary, unique=True, nullable=False))
    user_id: UUID = _to("user_account.id", cascade=True, index=True)
    created_at: datetime = _time(nullable=False)
    expires_at: datetime = _time(nullable=False)
    used_at: datetime | None = _time()
    revoked_at: datetime | None = _time()


class PersonalToken(SQLModel, table=True):
    """A token for a person's scripts: opaque, hashed, scoped, shown once."""

    __tablename__ = "personal_token"
    id: UUID = _id()
    user_id: UUID = _to("user_account.id", cascade=True, index=True)
    name: str = Field(max_length=100)
    secret_hash: bytes = Field(sa_column=Column(LargeBinary, unique=True, nullable=False))
    scopes: list[str] = _json()
    created_at: datetime = _time(nullable=False)
    expires_at: datetime | None = _time()
    used_at: datetime | None = _time()


# ---- the farm -----------------------------------------------------------------------------


class Environment(Editable, table=True):
    """An environment that queues offer; only a worker knows where it is installed."""

    __tablename__ = "environment"
    __table_args__ = (UniqueConstraint("name", "version"),)
    id: UUID = _id()
    name: str = Field(max_length=100)
    version: str = Field(max_length=50)
    os: str = Field(max_length=200, default="")
    description: str = _text()  #: Markdown: what is installed


class Queue(Editable, table=True):
    """A queue: limits of one slot, and how many slots it may hold on every worker."""

    __tablename__ = "queue"
    __table_args__ = (
        CheckConstraint("memory_mb > 0 AND time_limit_seconds > 0", name="limits"),
        CheckConstraint("slots_per_worker >= 0 AND cores_per_slot > 0", name="slots"),
    )
    id: UUID = _id()
    name: str = Field(max_length=100, unique=True)
    description: str = _text()
    memory_mb: int
    time_limit_seconds: int
    slots_per_worker: int
    cores_per_slot: int = 1
    default_environment_id: UUID = _to("environment.id")


class QueueEnvironment(SQLModel, table=True):
    """A queue offers an environment."""

    __tablename__ = "queue_environment"
    queue_id: UUID = _to("queue.id", cascade=True, primary_key=True)
    environment_id: UUID = _to("environment.id", primary_key=True, index=True)


class Worker(Editable, table=True):
    """A machine, or a door to a cluster, that polls for jobs."""

    __tablename__ = "worker"
    __table_args__ = (CheckConstraint(_one_of("state", WorkerState), name="state"),)
    id: UUID = _id()
    name: str = Field(max_length=100, unique=True)
    host: str = Field(max_length=255, default="")
    cores: int = 0
    memory_mb: int = 0
    executor: str = Field(max_length=50, default="process")
    sandbox: str = Field(max_length=50, default="")  #: "bubblewrap", or "none": said loudly
    limits: str = Field(max_length=50, default="")  #: how memory limits are held
    version: str = Field(max_length=50, default="")
    shares_cache: bool = False
    state: str = Field(max_length=20, default=WorkerState.OFFLINE.value)
    session: UUID | None = None  #: the registration now in force: an older process is fenced
    last_seen: datetime | None = _time()


class WorkerEnvironment(SQLModel, table=True):
    """A worker found an environment on itself."""

    __tablename__ = "worker_environment"
    worker_id: UUID = _to("worker.id", cascade=True, primary_key=True)
    name: str = Field(max_length=100, primary_key=True)
    version: str = Field(max_length=50, primary_key=True)
    os: str = Field(max_length=200, default="")
    packages: dict[str, str] = _json()


class WorkerCredential(SQLModel, table=True):
    """The long-lived secret of one worker name, exchanged for short tokens at registration."""

    __tablename__ = "worker_credential"
    id: UUID = _id()
    worker_name: str = Field(max_length=100, index=True)
    secret_hash: bytes = Field(sa_column=Column(LargeBinary, unique=True, nullable=False))
    created_by: str = Field(max_length=64)
    created_at: datetime = _time(nullable=False)
    expires_at: datetime | None = _time()
    used_at: datetime | None = _time()
    revoked_at: datetime | None = _time()


class SlotShare(SQLModel, table=True):
    """Slots of a queue on one worker, instead of the queue's own number."""

    __tablename__ = "slot_share"
    __table_args__ = (CheckConstraint("slots >= 0", name="slots"),)
    queue_id: UUID = _to("queue.id", cascade=True, primary_key=True)
    worker_id: UUID = _to("worker.id", cascade=True, primary_key=True, index=True)
    slots: int


class GroupQueueRight(SQLModel, table=True):
    """The members of a group may hold so many slots of a queue, at this priority."""

    __tablename__ = "group_queue_right"
    __table_args__ = (CheckConstraint("slots >= 0", name="slots"),)
    group_id: UUID = _to("user_group.id", cascade=True, primary_key=True)
    queue_id: UUID = _to("queue.id", cascade=True, primary_key=True, index=True)
    slots: int
    priority: int = 0


class HeldRight(SQLModel, table=True):
    """The rights that the scheduler holds for a user: those of the last submission or edit."""

    __tablename__ = "held_right"
    user_id: UUID = _to("user_account.id", cascade=True, primary_key=True)
    queue_id: UUID = _to("queue.id", cascade=True, primary_key=True, index=True)
    slots: int
    priority: int = 0


# ---- what people write --------------------------------------------------------------------


class Declared(Editable):
    """Something that a person declares in a version; fixed once an experiment has used it."""

    owner_id: UUID = _to("user_account.id", index=True)
    owner: str = Field(max_length=64)
    name: str = Field(max_length=100)
    version: int
    declaration: dict[str, Any] = _json()
    description: str = Field(max_length=100, default="")
    documentation: str = _text()  #: Markdown
    visibility: str = Field(max_length=10, default="private")  #: private, shared or public
    content_hash: str = Field(max_length=64)  #: SHA-256 of everything that a result depends on
    frozen_at: datetime | None = _time()  #: when an experiment first used it


def _declared(*columns: str) -> tuple[Any, ...]:
    return (
        UniqueConstraint(*columns),
        CheckConstraint("visibility IN ('private', 'shared', 'public')", name="visibility"),
        CheckConstraint("version >= 1", name="version"),
    )


class Library(Declared, table=True):
    """A folder of pure-Python files that algorithms import under an alias."""

    __tablename__ = "library"
    __table_args__ = _declared("owner", "name", "version")
    id: UUID = _id()
    files: dict[str, str] = _json()  #: path -> text


class DataFormat(Declared, table=True):
    """A type of data; ports are typed with it."""

    __tablename__ = "data_format"
    __table_args__ = _declared("owner", "name", "version")
    id: UUID = _id()


class Algorithm(Declared, table=True):
    """A declaration with its source; an analyzer has results instead of outputs."""

    __tablename__ = "algorithm"
    __table_args__ = _declared("owner", "name", "version")
    id: UUID = _id()
    source: str = _text()


class Toolchain(Declared, table=True):
    """A graph of datasets, blocks and analyzers."""

    __tablename__ = "toolchain"
    __table_args__ = _declared("owner", "name", "version")
    id: UUID = _id()


class Database(Declared, table=True):
    """Protocols and sets of data, served by views; named `name/version` as in BEAT."""

    __tablename__ = "dataset_database"
    __table_args__ = _declared("name", "version")
    id: UUID = _id()
    source: str = _text()  #: the views


class DatabaseFile(SQLModel, table=True):
    """An uploaded file of a database, stored under its hash."""

    __tablename__ = "database_file"
    database_id: UUID = _to("dataset_database.id", cascade=True, primary_key=True)
    path: str = Field(max_length=500, primary_key=True)
    size: int = Field(sa_type=BigInteger)
    sha256: str = Field(max_length=64, index=True)


class Share(SQLModel, table=True):
    """A thing of visibility `shared` is open to a group."""

    __tablename__ = "share"
    kind: str = Field(max_length=20, primary_key=True)  #: library, algorithm, …, experiment
    thing_id: UUID = Field(primary_key=True)
    group_id: UUID = _to("user_group.id", cascade=True, primary_key=True, index=True)


class Upload(SQLModel, table=True):
    """A file on its way in; resumed from `received`."""

    __tablename__ = "upload"
    id: UUID = _id()
    user_id: UUID = _to("user_account.id", cascade=True, index=True)
    filename: str = Field(max_length=500)
    size: int = Field(sa_type=BigInteger)
    received: int = Field(default=0, sa_type=BigInteger)
    sha256: str = Field(max_length=64)
    created_at: datetime = _time(nullable=False)


# ---- experiments --------------------------------------------------------------------------


class Experiment(Editable, table=True):
    """A toolchain with its configuration, its state and its results."""

    __tablename__ = "experiment"
    __table_args__ = (
        UniqueConstraint("owner", "name"),
        CheckConstraint(_one_of("state", experiments.State), name="state"),
        CheckConstraint(
            f"finished_at IS NULL OR {_one_of('state', [*sorted(experiments.FINAL), 'deleting'])}",
            name="finished_at",
        ),
        CheckConstraint("visibility IN ('private', 'shared', 'public')", name="visibility"),
        Index("ix_experiment_owner_id_id", "owner_id", "id"),
    )
    id: UUID = _id()
    owner_id: UUID = _to("user_account.id")
    owner: str = Field(max_length=64)
    name: str = Field(max_length=200)
    description: str = _text()
    visibility: str = Field(max_length=10, default="private")
    toolchain: str = Field(max_length=250)  #: author/name/version
    toolchain_declaration: dict[str, Any] = _json()
    declaration: dict[str, Any] = _json()  #: BEAT's experiment form
    state: str = Field(max_length=20, default=experiments.State.DRAFT.value, index=True)
    run: int = 0  #: how often it was started
    last_seq: int = Field(default=0, sa_type=BigInteger)  #: of its events
    forked_from: UUID | None = None
    submitted_at: datetime | None = _time()
    started_at: datetime | None = _time()
    finished_at: datetime | None = _time()


class Block(SQLModel, table=True):
    """A dataset, block or analyzer of an experiment's toolchain, as configured."""

    __tablename__ = "block"
    __table_args__ = (
        UniqueConstraint("experiment_id", "name"),
        CheckConstraint(_one_of("state", blocks.State), name="state"),
        CheckConstraint(
            f"(finished_at IS NOT NULL) = ({_one_of('state', sorted(blocks.FINAL))})",
            name="finished_at",
        ),
        CheckConstraint("kind IN ('dataset', 'block', 'analyzer')", name="kind"),
    )
    id: UUID = _id()
    experiment_id: UUID = _to("experiment.id", cascade=True)
    name: str = Field(max_length=200)
    kind: str = Field(max_length=10)
    position: int  #: in topological order
    inputs: list[str] = _json()  #: names of the blocks it reads
    algorithm: str = Field(max_length=250, default="")  #: or database/version/protocol/set
    parameters: dict[str, Any] = _json()
    job: dict[str, Any] = _json()  #: everything of job.json that does not depend on the attempt
    queue_id: UUID = _to("queue.id", index=True)
    environment_name: str = Field(max_length=100)
    environment_version: str = Field(max_length=50)
    slots: int = 1
    key: str = Field(max_length=64, index=True)  #: of its outputs in the cache
    state: str = Field(max_length=20, default=blocks.State.BLOCKED.value)
    reason: str | None = _text(default=None, nullable=True)
    failure: dict[str, Any] | None = _json(nullable=True)
    progress: float | None = None  #: 0 to 1
    worker: str | None = Field(default=None, max_length=100)
    queued_at: datetime | None = _time()
    started_at: datetime | None = _time()
    finished_at: datetime | None = _time()
    statistics: dict[str, Any] | None = _json(nullable=True)
    results: dict[str, Any] | None = _json(nullable=True)  #: of an analyzer


class Job(SQLModel, table=True):
    """One of the jobs a block is split into; `first`..`last` is its range of data units."""

    __tablename__ = "job"
    block_id: UUID = _to("block.id", cascade=True, primary_key=True)
    index: int = Field(primary_key=True)
    first: int | None = Field(default=None, sa_type=BigInteger)
    last: int | None = Field(default=None, sa_type=BigInteger)
    done: bool = False


class Attempt(SQLModel, table=True):
    """A job leased to a worker."""

    __tablename__ = "attempt"
    __table_args__ = (
        Index(
            "ix_attempt_open",
            "worker_id",
            postgresql_where="ended_at IS NULL",
        ),
    )
    id: str = Field(primary_key=True, max_length=80)  #: <block>.<index>.<number>
    block_id: UUID = _to("block.id", cascade=True, index=True)
    experiment_id: UUID = _to("experiment.id", cascade=True, index=True)
    index: int
    number: int
    run: int  #: the experiment's run that it belongs to
    worker_id: UUID | None = Field(default=None, foreign_key="worker.id", ondelete="SET NULL")
    worker: str = Field(max_length=100)
    leased_at: datetime = _time(nullable=False)
    started_at: datetime | None = _time()
    revoked_at: datetime | None = _time()
    ended_at: datetime | None = _time()
    outcome: str | None = Field(default=None, max_length=20)
    failure: dict[str, Any] | None = _json(nullable=True)
    statistics: dict[str, Any] | None = _json(nullable=True)


class LogChunk(SQLModel, table=True):
    """Output of an attempt; `start` counts characters from the beginning of its log."""

    __tablename__ = "log_chunk"
    attempt_id: str = Field(
        foreign_key="attempt.id", ondelete="CASCADE", primary_key=True, max_length=80
    )
    start: int = Field(sa_type=BigInteger, primary_key=True)
    stream: str = Field(max_length=10)
    text: str = _text()


class Event(SQLModel, table=True):
    """What happened to an experiment; `seq` is dense. What the browser replays."""

    __tablename__ = "event"
    experiment_id: UUID = _to("experiment.id", cascade=True, primary_key=True)
    seq: int = Field(sa_type=BigInteger, primary_key=True)
    time: datetime = _time(nullable=False)
    kind: str = Field(max_length=20)
    block: str | None = Field(default=None, max_length=200)
    details: dict[str, Any] = _json()


class IdempotencyKey(SQLModel, table=True):
    """The answer once given to a request, given again to the same request."""

    __tablename__ = "idempotency_key"
    actor: UUID = Field(primary_key=True)
    key: str = Field(max_length=200, primary_key=True)
    request_hash: str = Field(max_length=64)
    status: int | None = None  #: None while the first request is in flight
    response: dict[str, Any] | None = _json(nullable=True)
    created_at: datetime = _time(nullable=False, index=True)


# ---- the cache ----------------------------------------------------------------------------


class CacheEntry(SQLModel, table=True):
    """Finished outputs, under the key of everything they depend on."""

    __tablename__ = "cache_entry"
    key: str = Field(primary_key=True, max_length=64)
    algorithm: str = Field(max_length=250)
    environment: str = Field(max_length=160)
    made_by: UUID | None = None  #: user
    size: int = Field(default=0, sa_type=BigInteger)
    hits: int = 0
    created_at: datetime = _time(nullable=False)
    used_at: datetime = _time(nullable=False, index=True)
    statistics: dict[str, Any] | None = _json(nullable=True)
    results: dict[str, Any] | None = _json(nullable=True)  #: of an analyzer


class CachePart(SQLModel, table=True):
    """One file of an entry: an output over a range of data units."""

    __tablename__ = "cache_part"
    key: str = Field(
        foreign_key="cache_entry.key", ondelete="CASCADE", primary_key=True, max_length=64
    )
    output: str = Field(primary_key=True, max_length=200)
    first: int = Field(sa_type=BigInteger, primary_key=True)
    last: int = Field(sa_type=BigInteger)
    path: str = Field(max_length=300)  #: below the cache folder
    size: int = Field(sa_type=BigInteger)
    rows: int = Field(sa_type=BigInteger)
    sha256: str = Field(max_length=64)


# ---- the house ----------------------------------------------------------------------------


class Audit(SQLModel, table=True):
    """What administrators and owners changed: who, when, before, after."""

    __tablename__ = "audit"
    id: UUID = _id()
    time: datetime = _time(nullable=False)
    actor: str = Field(max_length=64)
    action: str = Field(max_length=100)
    thing: str = Field(max_length=300)
    before: dict[str, Any] | None = _json(nullable=True)
    after: dict[str, Any] | None = _json(nullable=True)


class Setting(SQLModel, table=True):
    """What an administrator set while running: policy, log levels, signing keys."""

    __tablename__ = "setting"
    key: str = Field(primary_key=True, max_length=100)
    value: dict[str, Any] = _json()
