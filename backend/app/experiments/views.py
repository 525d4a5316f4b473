"""Rows as what goes over the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from backend.app.auth.actors import Actor
from backend.app.experiments import access, queries, schemas
from backend.scheduler.core import blocks


def summary(row: Any, counts: Mapping[str, int]) -> schemas.ExperimentSummary:
    """Return a line of the list."""
    return schemas.ExperimentSummary(
        **{name: getattr(row, name) for name in queries.SUMMARY if name != "owner_id"},
        counts={blocks.State(state): number for state, number in counts.items()},
    )


async def experiment(session: AsyncSession, row: Any, actor: Actor) -> schemas.Experiment:
    """Return an experiment in full."""
    counts = await queries.counts(session, [row.id])
    queues = await queries.queues_of(session, row.id)
    rights = await queries.rights_held(session, row.owner_id, queues)
    mine = access.may_change(row, actor)
    return schemas.Experiment(
        **summary(row, counts[row.id]).model_dump(),
        declaration=row.declaration,
        toolchain_declaration=row.toolchain_declaration,
        rights=[
            schemas.RightUsed(
                queue_id=right.queue_id,
                queue=right.name,
                slots=right.slots,
                priority=right.priority,
            )
            for right in rights
        ],
        forked_from=row.forked_from,
        groups=await queries.shared_with(session, row.id) if mine else [],
        mine=mine,
    )


async def experiment_of(session: AsyncSession, actor: Actor, id_: UUID) -> schemas.Experiment:
    """Look an experiment up and return it in full; raises NotFound."""
    return await experiment(session, await access.seen(session, actor, id_), actor)


def block(row: Any) -> dict[str, Any]:
    """Return the fields of a BlockState, all but `attempt`."""
    direct = (
        "id",
        "name",
        "kind",
        "state",
        "reason",
        "failure",
        "progress",
        "worker",
        "queue",
        "queue_id",
        "slots",
        "algorithm",
        "inputs",
        "queued_at",
        "started_at",
        "finished_at",
    )
    environment = f"{row.environment_name}/{row.environment_version}"
    return {name: getattr(row, name) for name in direct} | {"environment": environment}


def block_state(row: Any) -> schemas.BlockState:
    """Return a block as it stands."""
    return schemas.BlockState(**block(row), attempt=row.attempt)


def attempt(row: Any) -> schemas.BlockAttempt:
    """Return an attempt at a block."""
    return schemas.BlockAttempt.model_validate(row, from_attributes=True)


def output_formats(job: Mapping[str, Any]) -> dict[str, str]:
    """Return the data format of each output that a block's job writes."""
    return {port["name"]: port["format"] for port in job["job"]["outputs"]}


def outputs(rows: Sequence[Any], job: Mapping[str, Any]) -> list[schemas.BlockOutput]:
    """Return what a finished block wrote."""
    formats = output_formats(job)
    return [
        schemas.BlockOutput(
            name=row.output,
            format=formats.get(row.output, ""),
            rows=int(row.rows),
            size=int(row.size),
        )
        for row in rows
    ]
