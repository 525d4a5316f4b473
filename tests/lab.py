"""A small world for tests of experiments: environment, queues, rights, and what experiments name.

Made in the database, as administrators and people would make it over the API.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncSession

from backend.app import farm
from backend.app.db import core
from backend.app.db.ids import uuid7
from backend.app.services import Services
from tests.experiments.cases import DATABASE, DOUBLE, EXPERIMENT, SUM, TOOLCHAIN

MATHS = {"language": "python", "uses": {"b": "ann/base/1"}}
BASE = {"language": "python"}
INTEGER = {"value": "int32"}


@dataclass(frozen=True, slots=True)
class Lab:
    """What was made."""

    environment: UUID
    short: UUID
    long: UUID


async def make_lab(services: Services, *, slots: int = 4, right: int = 4) -> Lab:
    """Make queue `short` (right for everybody) and `long` (right for the group `lab`)."""
    now = services.clock()
    async with services.sessions() as session:
        environment = await _add(
            session, core.environment, name="Python", version="1", created_at=now
        )
        second = await _add(session, core.environment, name="Python", version="2", created_at=now)
        queues = [
            await _queue(session, name, slots, [environment, second], now)
            for name in ("short", "long")
        ]
        for queue, group in zip(queues, ("default", "lab"), strict=True):
            group_id = await _group(session, group, now)
            await session.execute(
                insert(core.group_queue_right).values(
                    group_id=group_id, queue_id=queue, slots=right, priority=0
                )
            )
        events = await farm.queues_set(session, queues)
        await session.commit()
    await services.scheduler.handle(*events)
    return Lab(environment, *queues)


async def _queue(
    session: AsyncSession, name: str, slots: int, environments: list[UUID], now: Any
) -> UUID:
    queue = await _add(
        session,
        core.queue,
        name=name,
        memory_mb=1024,
        time_limit_seconds=60,
        slots_per_worker=slots,
        default_environment_id=environments[0],
        description="",
        cores_per_slot=1,
        created_at=now,
    )
    for environment in environments:
        await session.execute(
            insert(core.queue_environment).values(queue_id=queue, environment_id=environment)
        )
    return queue


async def _group(session: AsyncSession, name: str, now: Any) -> UUID:
    found = await session.scalar(select(core.user_group.c.id).where(core.user_group.c.name == name))
    return found or await _add(session, core.user_group, name=name, description="", created_at=now)


async def _add(session: AsyncSession, table: Any, **values: Any) -> UUID:
    id_ = uuid7()
    defaults = {
        "os": "",
        "description": "",
    }
    known = {k: v for k, v in defaults.items() if k in table.c and k not in values}
    await session.execute(insert(table).values(id=id_, revision=1, **known, **values))
    return id_


async def declare(
    services: Services, owner: Any, *, visibility: str = "public", name: str = "ann"
) -> None:
    """Store what `tests/experiments/cases.py` names, as declared by `owner` under `name`."""
    async with services.sessions() as session:
        common = {
            "owner_id": owner.id,
            "owner": name,
            "version": 1,
            "visibility": visibility,
            "content_hash": "0" * 64,
            "documentation": "",
            "created_at": services.clock(),
        }
        source = {"source": "class Algorithm: pass"}
        files = {"files": {"m.py": "x = 1"}}
        for table, called, declaration, more in (
            (core.data_format, "integer", INTEGER, {}),
            (core.library, "base", BASE, {"files": {"b.py": "y = 1"}}),
            (core.library, "maths", MATHS, files),
            (core.algorithm, "double", DOUBLE, source),
            (core.algorithm, "sum", SUM, source),
            (core.toolchain, "numbers", TOOLCHAIN, {}),
            (core.database, "numbers", DATABASE, {"source": "class Train: pass"}),
        ):
            await _add(session, table, name=called, declaration=declaration, **common, **more)
        await session.commit()


def experiment(name: str = "first", **changes: Any) -> dict[str, Any]:
    """Return the body of a new experiment."""
    body = {"name": name, "toolchain": "ann/numbers/1", "declaration": EXPERIMENT}
    return {**body, **changes}
