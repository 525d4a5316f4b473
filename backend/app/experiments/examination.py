"""Whether an experiment can be run by somebody now, and what its blocks would be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from backend.app.events.queries import Viewer
from backend.app.experiments import offers, planning, sources
from backend.app.experiments.offers import Owner
from backend.app.experiments.planning import PlannedBlock, QueueOffer, Sources
from backend.app.problems import Place
from gristmill.formats.experiments import check_experiment_form
from gristmill.formats.fitting import check_experiment
from gristmill.formats.names import ref_problem
from gristmill.formats.problems import BadDocument, Problem, problem

Declaration = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What was found: problems, or else blocks."""

    problems: Sequence[Place] = ()
    blocks: tuple[PlannedBlock, ...] = ()
    queues: tuple[QueueOffer, ...] = ()  #: all that the owner may use
    toolchain: Declaration | None = None
    #: versions by kind, id -> content hash
    used: Mapping[str, Mapping[UUID, str]] = field(default_factory=dict)


async def examine_new(
    session: AsyncSession, viewer: Viewer, owner: Owner, toolchain: str, declaration: Declaration
) -> Examined:
    """Examine an experiment that is to be made; pointers are into the request's body."""
    row = None
    wrong = ref_problem(toolchain, ())
    if wrong is None:
        row = await sources.toolchain(session, viewer, toolchain)
    if row is None:
        missing = wrong or problem(
            (), "unknown", f"There is no toolchain {toolchain}", found=toolchain
        )
        form = check_experiment_form(declaration)
        return Examined(problems=[*places([missing], "/toolchain"), *places(form)])
    examined = await examine(session, owner, row.declaration, declaration)
    return Examined(
        problems=examined.problems,
        blocks=examined.blocks,
        queues=examined.queues,
        toolchain=row.declaration,
        used=examined.used,
    )


async def examine(
    session: AsyncSession, owner: Owner, toolchain: Declaration, declaration: Declaration
) -> Examined:
    """Examine a declaration against its toolchain, what it names, and the owner's rights."""
    form = check_experiment_form(declaration)
    if form:
        return Examined(problems=places(form))
    gathered = await sources.gather(session, Viewer(owner.id, owner.admin), declaration)
    queues = await offers.usable(session, owner)
    problems, blocks = await asyncio.to_thread(
        _checked, toolchain, declaration, gathered.sources, queues
    )
    return Examined(
        problems=places(problems),
        blocks=blocks,
        queues=tuple(queues),
        toolchain=toolchain,
        used=gathered.used,
    )


def _checked(
    toolchain: Declaration, declaration: Declaration, known: Sources, queues: list[QueueOffer]
) -> tuple[list[Problem], tuple[PlannedBlock, ...]]:
    problems = planning.unsupported(toolchain) or check_experiment(
        declaration,
        toolchain,
        {ref: one.declaration for ref, one in known.algorithms.items()},
        known.formats,
        {ref: one.declaration for ref, one in known.databases.items()},
        libraries={ref: one.declaration for ref, one in known.libraries.items()},
    )
    if problems:
        return problems, ()
    placements, problems = planning.place(toolchain, declaration, queues, known.databases)
    if problems:
        return problems, ()
    try:
        return [], planning.plan(toolchain, declaration, known, placements)
    except BadDocument as error:  # a format of a closure that is not there any more
        return list(error.problems), ()


def places(problems: Iterable[Problem], prefix: str = "/declaration") -> list[Place]:
    """Return problems of a part of the body as places in it."""
    return [
        Place(
            pointer=prefix + one.pointer,
            message=one.message,
            code=one.code,
            expected=one.expected,
            found=one.found,
        )
        for one in problems
    ]
