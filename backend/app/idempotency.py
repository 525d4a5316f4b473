"""`Idempotency-Key`: the same request sent twice is done once and answered twice the same.

    keep = await idempotency.begin(session, actor.id, key, body, now)
    if keep.answer is not None:
        return keep.answer                      # the first answer, again
    …                                           # do it, in this session
    await keep.answered(201, view)              # then commit

The key's row is written in the transaction of the work: after a crash there is either both or
nothing, and a second request that comes while the first is under way waits for its end.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Header
from pydantic import BaseModel
from sqlalchemy import update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from backend.app import problems
from backend.app.db.tables import IdempotencyKey

KEPT_SECONDS = 24 * 3600

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="sent again within a day, the request is not done again",
    ),
]


@dataclass(frozen=True, slots=True)
class Keep:
    """A request under a key, or under none."""

    session: AsyncSession
    actor: UUID
    key: str | None
    status: int | None = None
    answer: dict[str, Any] | None = None  #: given before, to be given again

    async def answered(self, status: int, answer: BaseModel) -> None:
        """Keep the answer; commit afterwards."""
        if self.key is None:
            return
        statement = (
            update(IdempotencyKey)
            .where(col(IdempotencyKey.actor) == self.actor, col(IdempotencyKey.key) == self.key)
            .values(status=status, response=answer.model_dump(mode="json"))
        )
        await self.session.execute(statement)


async def begin(
    session: AsyncSession, actor: UUID, key: str | None, body: BaseModel, now: datetime
) -> Keep:
    """Take the key for this request; raises Invalid when it stands for another one."""
    if key is None:
        return Keep(session, actor, None)
    digest = _digest(body)
    statement = (
        insert(IdempotencyKey)
        .values(actor=actor, key=key, request_hash=digest, created_at=now)
        .on_conflict_do_nothing()
        .returning(col(IdempotencyKey.key))
    )
    if await session.scalar(statement) is not None:
        return Keep(session, actor, key)
    stored = await session.get(IdempotencyKey, (actor, key))
    if stored is None or stored.response is None:
        raise problems.Conflict("the first request with this key has not ended", code="in_flight")
    if stored.request_hash != digest:
        raise problems.invalid(
            "header.idempotency-key", "this key was used for another request", "idempotency"
        )
    return Keep(session, actor, key, stored.status, stored.response)


def _digest(body: BaseModel) -> str:
    text = json.dumps(body.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
