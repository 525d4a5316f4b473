"""The audit log: who changed what, with before and after, in the transaction of the change."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession

from backend.app.auth.actors import Actor
from backend.app.db.tables import Audit
from backend.app.logs import redact

State = BaseModel | Mapping[str, Any] | None


def record(
    session: AsyncSession,
    actor: Actor,
    action: str,
    thing: str,
    now: datetime,
    *,
    before: State = None,
    after: State = None,
) -> None:
    """Add a line; it is kept if and only if the session commits.

    `action` is an operation id, `thing` a name a person knows ("queue fast").
    """
    session.add(
        Audit(
            time=now,
            actor=actor.username,
            action=action,
            thing=thing[:300],
            before=_plain(before),
            after=_plain(after),
        )
    )


def _plain(state: State) -> dict[str, Any] | None:
    if state is None:
        return None
    plain = state.model_dump(mode="json") if isinstance(state, BaseModel) else dict(state)
    redacted: dict[str, Any] = redact(plain)
    return redacted
