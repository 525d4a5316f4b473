"""The audit log, for administrators."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel
from sqlalchemy import select
from sqlmodel import col

from backend.app import pages
from backend.app.auth.actors import Admin
from backend.app.db.sessions import ReadSession
from backend.app.db.tables import Audit
from backend.app.pages import Page, Part, Rows
from backend.app.routing import api_router

router = api_router("admin")

Filter = Annotated[str | None, Query(max_length=100)]


class AuditLine(BaseModel):
    """Who changed what; secrets are left out of before and after."""

    id: UUID
    time: datetime
    actor: str
    action: str
    thing: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


@router.get("/admin/audit")
async def list_audit(
    _admin: Admin, session: ReadSession, part: Part, actor: Filter = None, action: Filter = None
) -> Page[AuditLine]:
    """List what was changed, the newest first; of one actor, or of one kind of action."""
    query: Rows = select(Audit)
    if actor is not None:
        query = query.where(col(Audit.actor) == actor)
    if action is not None:
        query = query.where(col(Audit.action) == action)
    return await pages.listed(session, query, [col(Audit.id)], part, _view, descending=True)


def _view(row: Audit) -> AuditLine:
    return AuditLine.model_validate(row, from_attributes=True)
