"""Endpoints of users, groups and rights."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Query, Response
from sqlalchemy import select
from sqlmodel import col

from backend.app import pages
from backend.app.auth.actors import Admin, CurrentUser, SignedIn
from backend.app.clock import Now
from backend.app.db.sessions import ReadSession, WriteSession
from backend.app.db.tables import Group, GroupQueueRight, User
from backend.app.etags import IfMatch, tagged
from backend.app.pages import Page, Part
from backend.app.routing import api_router
from backend.app.services import TheServices
from backend.app.users import queries, service
from backend.app.users.schemas import (
    GroupChange,
    GroupView,
    Member,
    MyChange,
    NewGroup,
    NewUser,
    RightChange,
    RightView,
    UserChange,
    UserView,
)

router = api_router("users")

Search = Annotated[str | None, Query(max_length=100, description="text that the name holds")]


# ---- oneself ------------------------------------------------------------------------------


@router.get("/me")
async def get_me(actor: CurrentUser, session: ReadSession, response: Response) -> UserView:
    """Show who you are."""
    return tagged(response, await queries.me(session, actor.id))


@router.patch("/me")
async def update_me(
    body: MyChange,
    actor: SignedIn,
    session: WriteSession,
    now: Now,
    response: Response,
    if_match: IfMatch = None,
) -> UserView:
    """Change your e-mail address."""
    return tagged(response, await service.update_me(session, actor, body, if_match, now))


# ---- users --------------------------------------------------------------------------------


@router.get("/users")
async def list_users(
    _admin: Admin, session: ReadSession, part: Part, q: Search = None
) -> Page[UserView]:
    """List users by name."""
    rows, cursor = await pages.page(session, queries.users(q), [col(User.username)], part)
    return Page(items=await queries.views(session, rows), next=cursor)


@router.post("/users", status_code=201)
async def create_user(
    body: NewUser, actor: Admin, session: WriteSession, now: Now, response: Response
) -> UserView:
    """Make a user; they are in the group `default`."""
    return tagged(response, await service.create_user(session, actor, body, now))


@router.get("/users/{user_id}")
async def get_user(
    user_id: UUID, _admin: Admin, session: ReadSession, response: Response
) -> UserView:
    """Show a user."""
    return tagged(response, await service.user(session, user_id))


@router.patch("/users/{user_id}")
async def update_user(
    user_id: UUID,
    body: UserChange,
    actor: Admin,
    session: WriteSession,
    services: TheServices,
    now: Now,
    response: Response,
    if_match: IfMatch = None,
) -> UserView:
    """Change a user: address, password, reputation, active, administrator."""
    view = await service.update_user(session, services, actor, user_id, body, if_match, now)
    return tagged(response, view)


@router.delete("/users/{user_id}", status_code=204)
async def delete_user(
    user_id: UUID, actor: Admin, session: WriteSession, now: Now, if_match: IfMatch = None
) -> None:
    """Delete a user who owns nothing; who does can be made inactive."""
    await service.delete_user(session, actor, user_id, if_match, now)


# ---- groups -------------------------------------------------------------------------------


@router.get("/groups")
async def list_groups(_admin: Admin, session: ReadSession, part: Part) -> Page[GroupView]:
    """List groups by name."""
    rows, cursor = await pages.page(session, select(Group), [col(Group.name)], part)
    return Page(items=await queries.group_views(session, rows), next=cursor)


@router.post("/groups", status_code=201)
async def create_group(
    body: NewGroup, actor: Admin, session: WriteSession, now: Now, response: Response
) -> GroupView:
    """Make a group."""
    return tagged(response, await service.create_group(session, actor, body, now))


@router.get("/groups/{group_id}")
async def get_group(
    group_id: UUID, _admin: Admin, session: ReadSession, response: Response
) -> GroupView:
    """Show a group."""
    return tagged(response, await service.group(session, group_id))


@router.patch("/groups/{group_id}")
async def update_group(
    group_id: UUID,
    body: GroupChange,
    actor: Admin,
    session: WriteSession,
    now: Now,
    response: Response,
    if_match: IfMatch = None,
) -> GroupView:
    """Change a group's name or description."""
    view = await service.update_group(session, actor, group_id, body, if_match, now)
    return tagged(response, view)


@router.delete("/groups/{group_id}", status_code=204)
async def delete_group(
    group_id: UUID,
    actor: Admin,
    session: WriteSession,
    services: TheServices,
    now: Now,
    if_match: IfMatch = None,
) -> None:
    """Delete a group, with the rights that it gives."""
    await service.delete_group(session, services, actor, group_id, if_match, now)


@router.get("/groups/{group_id}/members")
async def list_group_members(
    group_id: UUID, _admin: Admin, session: ReadSession, part: Part
) -> Page[Member]:
    """List the members of a group by name."""
    await service.group(session, group_id)
    return await pages.listed(
        session,
        queries.members(group_id),
        [col(User.username)],
        part,
        lambda user: Member(id=user.id, username=user.username),
    )


@router.put("/groups/{group_id}/members/{user_id}", status_code=204)
async def add_group_member(
    group_id: UUID,
    user_id: UUID,
    actor: Admin,
    session: WriteSession,
    services: TheServices,
    now: Now,
) -> None:
    """Put a user in a group."""
    await service.add_member(session, services, actor, group_id, user_id, now)


@router.delete("/groups/{group_id}/members/{user_id}", status_code=204)
async def remove_group_member(
    group_id: UUID,
    user_id: UUID,
    actor: Admin,
    session: WriteSession,
    services: TheServices,
    now: Now,
) -> None:
    """Take a user out of a group; nobody leaves `default`."""
    await service.remove_member(session, services, actor, group_id, user_id, now)


# ---- rights -------------------------------------------------------------------------------


@router.get("/rights")
async def list_rights(
    _admin: Admin,
    session: ReadSession,
    part: Part,
    group_id: UUID | None = None,
    queue_id: UUID | None = None,
) -> Page[RightView]:
    """List what groups may hold of queues."""
    columns = [col(GroupQueueRight.group_id), col(GroupQueueRight.queue_id)]
    query = queries.rights(group_id, queue_id)
    return await pages.listed(session, query, columns, part, queries.right_view)


@router.put("/rights/{group_id}/{queue_id}")
async def set_right(
    group_id: UUID,
    queue_id: UUID,
    body: RightChange,
    actor: Admin,
    session: WriteSession,
    services: TheServices,
    now: Now,
) -> RightView:
    """Give a group slots and a priority on a queue; holds from the next pass of the scheduler."""
    return await service.set_right(session, services, actor, group_id, queue_id, body, now)


@router.delete("/rights/{group_id}/{queue_id}", status_code=204)
async def delete_right(
    group_id: UUID,
    queue_id: UUID,
    actor: Admin,
    session: WriteSession,
    services: TheServices,
    now: Now,
) -> None:
    """Take a group's right on a queue; what runs goes on."""
    await service.delete_right(session, services, actor, group_id, queue_id, now)
