"""What the verbs mean: create, change, start, stop, delete, fork an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from backend.app import etags
from backend.app.audit.service import record
from backend.app.auth.actors import Actor
from backend.app.cache import queries as cache
from backend.app.db.ids import uuid7
from backend.app.db.visibility import Visibility
from backend.app.declarations import queries as declarations
from backend.app.declarations.checks import check_groups
from backend.app.declarations.schemas import Sharing
from backend.app.events import queries as events
from backend.app.events.hub import Hub
from backend.app.experiments import access, examination, offers, queries, schemas
from backend.app.experiments.examination import Examined
from backend.app.experiments.locks import Locks
from backend.app.experiments.planning import PlannedBlock
from backend.app.problems import Conflict, Invalid, Place, invalid
from backend.scheduler.core import blocks, experiments
from backend.scheduler.core.events import Deleted, Stopped, Submitted
from backend.scheduler.core.model import BlockKind, BlockSpec, Right, Submission
from backend.scheduler.loop import Scheduler
from backend.scheduler.ports import PublishedEvent

EDITABLE = frozenset({"draft", "failed", "cancelled"})
STARTABLE = frozenset(
    state.value for state, move in experiments.TRANSITIONS if move is experiments.Move.START
)
LIVE = frozenset(state.value for state in experiments.LIVE)


# ---- making ----


async def validate(
    session: AsyncSession, actor: Actor, asked: schemas.ExperimentIn
) -> schemas.Validation:
    """Say whether an experiment could be made, and what would come from the cache."""
    found = await _examine_new(session, actor, asked)
    held = await cache.held(session, [block.key for block in found.blocks])
    return schemas.Validation(
        ok=not found.problems,
        problems=list(found.problems),
        blocks=[
            schemas.PlannedBlock(name=block.name, key=block.key, cached=block.key in held)
            for block in found.blocks
        ],
    )


async def create(
    session: AsyncSession, actor: Actor, asked: schemas.ExperimentIn, now: datetime
) -> UUID:
    """Make an experiment, a draft; nothing is stored when anything is wrong with it.

    The caller commits.
    """
    found = await _examine_new(session, actor, asked)
    if found.problems:
        raise _invalid(found.problems)
    values = {
        "name": asked.name,
        "toolchain": asked.toolchain,
        "toolchain_declaration": found.toolchain,
        "declaration": asked.declaration,
        "description": asked.description,
        "visibility": asked.visibility,
    }
    return await _add(session, actor, values, found, now)


async def _examine_new(
    session: AsyncSession, actor: Actor, asked: schemas.ExperimentIn
) -> Examined:
    owner = await offers.owner(session, actor.id)
    return await examination.examine_new(
        session, access.viewer(actor), owner, asked.toolchain, asked.declaration
    )


async def _add(
    session: AsyncSession,
    actor: Actor,
    values: Mapping[str, Any],
    found: Examined,
    now: datetime,
) -> UUID:
    id_ = uuid7()
    try:
        await queries.add(
            session,
            {
                "id": id_,
                "owner_id": actor.id,
                "owner": actor.username,
                "state": "draft",
                "run": 0,
                "last_seq": 0,
                "created_at": now,
                "revision": 1,
                **values,
            },
        )
    except IntegrityError:
        raise name_taken(values["name"]) from None
    await _write_blocks(session, id_, found)
    return id_


async def _write_blocks(session: AsyncSession, experiment: UUID, found: Examined) -> None:
    rows = [
        {
            "id": uuid7(),
            "experiment_id": experiment,
            "name": block.name,
            "kind": block.kind.value,
            "state": blocks.State.BLOCKED.value,
            **_row(block),
        }
        for block in found.blocks
    ]
    if rows:
        await queries.add_blocks(session, rows)


def _row(block: PlannedBlock) -> dict[str, Any]:
    name, version = block.placement.environment
    return {
        "position": block.position,
        "inputs": list(block.inputs),
        "algorithm": block.algorithm,
        "parameters": block.parameters,
        "job": block.job,
        "queue_id": UUID(block.placement.queue.id),
        "environment_name": name,
        "environment_version": version,
        "slots": block.placement.slots,
        "key": block.key,
    }


async def fork(
    session: AsyncSession, actor: Actor, id_: UUID, name: str | None, now: datetime
) -> UUID:
    """Copy an experiment that the actor may see into a draft of the actor's own.

    What the actor may not use (a queue, say) stays to be changed; starting tells what it is.
    The caller commits.
    """
    row = await access.seen(session, actor, id_)
    owner = await offers.owner(session, actor.id)
    found = await examination.examine(session, owner, row.toolchain_declaration, row.declaration)
    values = {
        "name": name or await _free_name(session, actor.username, row.name),
        "toolchain": row.toolchain,
        "toolchain_declaration": row.toolchain_declaration,
        "declaration": row.declaration,
        "description": row.description,
        "visibility": "private",
        "forked_from": row.id,
    }
    return await _add(session, actor, values, found, now)


async def _free_name(session: AsyncSession, owner: str, name: str) -> str:
    start = f"{name[:180]}-fork"
    taken = await queries.names_beginning(session, owner, start)
    numbered = (f"{start}-{number}" for number in range(2, len(taken) + 3))
    return next(one for one in (start, *numbered) if one not in taken)


# ---- changing ----


async def change(session: AsyncSession, row: Any, asked: schemas.ExperimentPatch) -> None:
    """Change an experiment; its row is locked, the caller commits."""
    values = asked.model_dump(exclude_none=True)
    if asked.declaration is not None:
        await _change_declaration(session, row, asked.declaration)
    if asked.name and asked.name != row.name:
        if row.state in LIVE:
            raise Conflict("the experiment runs; its name can be changed when it has ended")
        if await queries.name_taken(session, row.owner, asked.name):
            raise name_taken(asked.name)
    await queries.change(session, row.id, values)


async def _change_declaration(
    session: AsyncSession, row: Any, declaration: Mapping[str, Any]
) -> None:
    if row.state not in EDITABLE:
        raise Conflict(
            f"the experiment is {row.state}: its declaration is fixed; fork it to try another"
        )
    owner = await offers.owner(session, row.owner_id)
    found = await examination.examine(session, owner, row.toolchain_declaration, declaration)
    if found.problems:
        raise _invalid(found.problems)
    if row.state == "draft":
        await queries.remove_blocks(session, row.id)
        await _write_blocks(session, row.id, found)


async def set_sharing(
    session: AsyncSession, actor: Actor, row: Any, asked: Sharing, now: datetime
) -> None:
    """Say who may see an experiment; its row is locked, the caller commits."""
    if asked.groups and asked.visibility != Visibility.SHARED:
        raise invalid("/groups", "only with the visibility 'shared'", "unexpected")
    open_ = await declarations.groups_open_to(session, actor, asked.groups)
    check_groups(asked.groups, open_)
    await queries.share_with(session, row.id, asked.groups)
    await queries.change(session, row.id, {"visibility": asked.visibility.value})
    before = {"visibility": row.visibility}
    thing = f"experiment {row.owner}/{row.name}"
    record(session, actor, "share_experiment", thing, now, before=before, after=asked)


# ---- running ----


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What starting and stopping need besides the database."""

    scheduler: Scheduler
    hub: Hub
    locks: Locks


async def start(
    session: AsyncSession, actor: Actor, id_: UUID, running: Running, now: datetime
) -> None:
    """Submit an experiment of the actor's own, with the owner's rights as they are now."""
    async with running.locks.of(id_):
        row = await access.owned(session, actor, id_, lock=True)
        if row.state not in STARTABLE:
            raise Conflict(f"the experiment is {row.state} and cannot be started")
        found = await examination.examine(
            session,
            await offers.owner(session, row.owner_id),
            row.toolchain_declaration,
            row.declaration,
        )
        if found.problems:
            raise Conflict(
                f"the experiment cannot run as it is: {found.problems[0].message}",
                code="not_runnable",
                errors=found.problems,
            )
        resets = await _renew_blocks(session, row, found, now)
        await _freeze(session, found, row, now)
        cached = await cache.held(session, [block.key for block in found.blocks])
        ids = await queries.block_ids(session, id_)
        before = await queries.attempt_numbers(session, id_)
        await session.commit()
        running.hub.publish(str(id_), resets)
        submission = _submission(row, found, ids, before, now)
        refusals = await running.scheduler.handle(Submitted(submission=submission, cached=cached))
    if refusals:
        raise Conflict(f"the experiment was not started: {refusals[0].why}")


async def _renew_blocks(
    session: AsyncSession, row: Any, found: Examined, now: datetime
) -> list[PublishedEvent]:
    """Write the blocks of the new run; return the events of those that had moved before."""
    old = await queries.block_states(session, row.id)
    if old.keys() != {block.name for block in found.blocks}:
        await queries.remove_blocks(session, row.id)
        await _write_blocks(session, row.id, found)
        moved: list[str] = []
    else:
        ids = await queries.block_ids(session, row.id)
        rows = [{"id": ids[block.name], **_row(block)} for block in found.blocks]
        await queries.reset_blocks(session, rows)
        moved = [b.name for b in found.blocks if old[b.name] != blocks.State.BLOCKED.value]
    resets = [
        PublishedEvent(
            experiment=str(row.id),
            seq=row.last_seq + number,
            time=now.timestamp(),
            kind="block",
            block=name,
            details=dict(_AS_NEW),
        )
        for number, name in enumerate(moved, start=1)
    ]
    await events.add(session, row.id, resets)
    await queries.begin_run(session, row.id, now, row.last_seq + len(resets))
    return resets


_AS_NEW = {
    "state": blocks.State.BLOCKED.value,
    "reason": None,
    "failure": None,
    "attempt": None,
    "worker": None,
    "queued_at": None,
    "started_at": None,
    "finished_at": None,
}


async def _freeze(session: AsyncSession, found: Examined, row: Any, now: datetime) -> None:
    """Fix what the experiment uses; raises Conflict when it is not what was examined any more."""
    for kind, hashes in found.used.items():
        await queries.freeze(session, kind, hashes, now)
        if await queries.content_hashes(session, kind, hashes) != hashes:
            raise Conflict("what the experiment uses was changed just now; start it again")
    owner, name, version = row.toolchain.split("/")
    await queries.freeze_toolchain(session, (owner, name, int(version)), now)


def _submission(
    row: Any,
    found: Examined,
    ids: Mapping[str, UUID],
    before: Mapping[UUID, int],
    now: datetime,
) -> Submission:
    return Submission(
        experiment=str(row.id),
        user=str(row.owner_id),
        rights={q.id: Right(slots=q.slots, priority=q.priority) for q in found.queues},
        blocks=tuple(
            BlockSpec(
                id=str(ids[block.name]),
                name=block.name,
                kind=BlockKind(block.kind),
                inputs=tuple(str(ids[name]) for name in block.inputs),
                queue=block.placement.queue.id,
                environment=block.placement.environment,
                slots=block.placement.slots,
                key=block.key,
                attempts_before=before.get(ids[block.name], 0),
            )
            for block in found.blocks
        ),
        submitted_at=now.timestamp(),
    )


async def stop(session: AsyncSession, actor: Actor, id_: UUID, running: Running) -> None:
    """Stop an experiment of the actor's own; one that is stopping already goes on doing so."""
    async with running.locks.of(id_):
        row = await access.owned(session, actor, id_)
        await session.rollback()
        if row.state in ("pending", "running"):
            await running.scheduler.handle(Stopped(experiment=str(id_)))
        elif row.state not in ("cancelling", "cancelled"):
            raise Conflict(f"the experiment is {row.state}: there is nothing to stop")


async def delete(
    session: AsyncSession,
    actor: Actor,
    id_: UUID,
    if_match: str | None,
    running: Running,
    now: datetime,
) -> None:
    """Delete an experiment; one that runs is stopped first and goes when it is at rest."""
    async with running.locks.of(id_):
        row = await access.owned(session, actor, id_, lock=True)
        etags.require(if_match, row.revision)
        if row.state in LIVE:
            await session.rollback()
            if row.state != "deleting":
                await running.scheduler.handle(Deleted(experiment=str(id_)))
            return
        await queries.remove(session, id_)
        await queries.unshare(session, id_)
        await session.commit()
    gone = PublishedEvent(
        experiment=str(id_),
        seq=row.last_seq + 1,
        time=now.timestamp(),
        kind="deleted",
        block=None,
        details={},
    )
    running.hub.publish(str(id_), [gone])


# ---- problems ----


def name_taken(name: str) -> Conflict:
    """Return the problem of a second experiment of one name."""
    message = f"you have an experiment {name} already"
    return Conflict(
        message,
        code="name_taken",
        errors=[Place(pointer="/name", message=message, code="name_taken", found=name)],
    )


def _invalid(problems: Any) -> Invalid:
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Invalid(f"{first.message}{more}", errors=problems)
