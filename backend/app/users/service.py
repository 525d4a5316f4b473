"""Making, changing and deleting users, groups and rights; the scheduler hears of each change."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from backend.app import etags, farm, problems
from backend.app.audit.service import record
from backend.app.auth import passwords
from backend.app.auth import queries as auth_queries
from backend.app.auth.actors import Actor
from backend.app.conflicts import flush_deleted, flush_unique, in_use, there
from backend.app.db.tables import Group, Queue, User
from backend.app.services import Services
from backend.app.users import queries
from backend.app.users.bootstrap import DEFAULT_GROUP
from backend.app.users.schemas import (
    GroupChange,
    GroupView,
    MyChange,
    NewGroup,
    NewUser,
    RightChange,
    RightView,
    UserChange,
    UserView,
)


async def create_user(
    session: AsyncSession, actor: Actor, wanted: NewUser, now: datetime
) -> UserView:
    """Make a user, in `default`; raises Conflict when the name is taken."""
    hashed = await passwords.hashed(wanted.password)
    user = User(**wanted.model_dump(exclude={"password"}), password_hash=hashed, created_at=now)
    session.add(user)
    await flush_unique(session, "/username", f"there is a user {wanted.username!r} already")
    default = await queries.group_named(session, DEFAULT_GROUP)
    if default is None:
        default = Group(name=DEFAULT_GROUP, description="Everybody", created_at=now)
        session.add(default)
        await session.flush()
    await queries.add_member(session, default.id, user.id)
    view = (await queries.views(session, [user]))[0]
    record(session, actor, "create_user", f"user {user.username}", now, after=view)
    await session.commit()
    return view


async def user(session: AsyncSession, user_id: UUID) -> UserView:
    """Return a user; raises NotFound."""
    found = await session.get(User, user_id)
    return (await queries.views(session, [there(found, "user")]))[0]


async def update_user(
    session: AsyncSession,
    services: Services,
    actor: Actor,
    user_id: UUID,
    change: UserChange,
    if_match: str | None,
    now: datetime,
) -> UserView:
    """Change a user; a new reputation holds from the scheduler's next pass."""
    values = change.model_dump(exclude_unset=True)
    password = values.pop("password", None)
    hashed = await passwords.hashed(password) if password else None
    found = there(await queries.locked_user(session, user_id), "user")
    etags.require(if_match, found.revision)
    before = (await queries.views(session, [found]))[0]
    if not (values.get("admin", found.admin) and values.get("active", found.active)):
        await _require_other_admin(session, found)
    for name, value in values.items():
        setattr(found, name, value)
    if hashed:
        found.password_hash = hashed
    if hashed or not found.active:
        await auth_queries.end_all(session, found.id, now)
    found.revision += 1
    after = (await queries.views(session, [found]))[0]
    record(session, actor, "update_user", f"user {found.username}", now, before=before, after=after)
    await session.commit()
    if "reputation" in values:
        await farm.tell(services, await farm.rights_set(session, [user_id]))
    return after


async def _require_other_admin(session: AsyncSession, found: User) -> None:
    if found.admin and found.active and not await queries.other_admins(session, found.id):
        raise problems.Conflict(
            f"{found.username!r} is the last active administrator", code="last_admin"
        )


async def update_me(
    session: AsyncSession, actor: Actor, change: MyChange, if_match: str | None, now: datetime
) -> UserView:
    """Change what is one's own to change."""
    found = there(await queries.locked_user(session, actor.id), "user")
    etags.require(if_match, found.revision)
    before = (await queries.views(session, [found]))[0]
    found.email = change.email
    found.revision += 1
    after = (await queries.views(session, [found]))[0]
    record(session, actor, "update_me", f"user {found.username}", now, before=before, after=after)
    await session.commit()
    return after


async def delete_user(
    session: AsyncSession, actor: Actor, user_id: UUID, if_match: str | None, now: datetime
) -> None:
    """Delete a user who owns nothing; raises InUse with what they own."""
    found = there(await queries.locked_user(session, user_id), "user")
    etags.require(if_match, found.revision)
    await _require_other_admin(session, found)
    if owned := await queries.things_of(session, user_id):
        raise in_use(f"user {found.username!r} owns things; deactivate the user instead", owned)
    before = (await queries.views(session, [found]))[0]
    record(session, actor, "delete_user", f"user {found.username}", now, before=before)
    await session.delete(found)
    await flush_deleted(session, f"user {found.username!r} owns things")
    await session.commit()


# ---- groups -------------------------------------------------------------------------------


async def create_group(
    session: AsyncSession, actor: Actor, wanted: NewGroup, now: datetime
) -> GroupView:
    """Make a group; raises Conflict when the name is taken."""
    made = Group(**wanted.model_dump(), created_at=now)
    session.add(made)
    await flush_unique(session, "/name", f"there is a group {wanted.name!r} already")
    view = (await queries.group_views(session, [made]))[0]
    record(session, actor, "create_group", f"group {made.name}", now, after=view)
    await session.commit()
    return view


async def group(session: AsyncSession, group_id: UUID) -> GroupView:
    """Return a group; raises NotFound."""
    found = there(await session.get(Group, group_id), "group")
    return (await queries.group_views(session, [found]))[0]


async def update_group(
    session: AsyncSession,
    actor: Actor,
    group_id: UUID,
    change: GroupChange,
    if_match: str | None,
    now: datetime,
) -> GroupView:
    """Change a group's name or description."""
    found = there(await queries.locked_group(session, group_id), "group")
    etags.require(if_match, found.revision)
    before = (await queries.group_views(session, [found]))[0]
    values = change.model_dump(exclude_unset=True)
    if values.get("name", found.name) != found.name:
        _refuse_default(found, "keeps its name")
    for name, value in values.items():
        setattr(found, name, value)
    found.revision += 1
    await flush_unique(session, "/name", f"there is a group {found.name!r} already")
    after = (await queries.group_views(session, [found]))[0]
    record(session, actor, "update_group", f"group {before.name}", now, before=before, after=after)
    await session.commit()
    return after


def _refuse_default(found: Group, what: str) -> None:
    if found.name == DEFAULT_GROUP:
        raise problems.Conflict(f"the group {DEFAULT_GROUP!r} {what}", code="default_group")


async def delete_group(
    session: AsyncSession,
    services: Services,
    actor: Actor,
    group_id: UUID,
    if_match: str | None,
    now: datetime,
) -> None:
    """Delete a group with its rights; its members lose them from the next pass on."""
    found = there(await queries.locked_group(session, group_id), "group")
    etags.require(if_match, found.revision)
    _refuse_default(found, "holds everybody and stays")
    before = (await queries.group_views(session, [found]))[0]
    members = await queries.member_ids(session, group_id)
    record(session, actor, "delete_group", f"group {found.name}", now, before=before)
    await session.delete(found)
    await session.commit()
    await farm.tell(services, await farm.rights_set(session, members))


async def add_member(
    session: AsyncSession,
    services: Services,
    actor: Actor,
    group_id: UUID,
    user_id: UUID,
    now: datetime,
) -> None:
    """Put a user in a group; again changes nothing."""
    found = there(await queries.locked_group(session, group_id), "group")
    member = there(await queries.locked_user(session, user_id), "user")
    if not await queries.add_member(session, group_id, user_id):
        return
    after = {"user": member.username}
    record(session, actor, "add_group_member", f"group {found.name}", now, after=after)
    await session.commit()
    await farm.tell(services, await farm.rights_set(session, [user_id]))


async def remove_member(
    session: AsyncSession,
    services: Services,
    actor: Actor,
    group_id: UUID,
    user_id: UUID,
    now: datetime,
) -> None:
    """Take a user out of a group; raises NotFound when they are not in it."""
    found = there(await queries.locked_group(session, group_id), "group")
    _refuse_default(found, "holds everybody")
    if not await queries.remove_member(session, group_id, user_id):
        raise problems.NotFound("this user is not in the group")
    member = await session.get_one(User, user_id)
    before = {"user": member.username}
    record(session, actor, "remove_group_member", f"group {found.name}", now, before=before)
    await session.commit()
    await farm.tell(services, await farm.rights_set(session, [user_id]))


# ---- rights -------------------------------------------------------------------------------


async def set_right(
    session: AsyncSession,
    services: Services,
    actor: Actor,
    group_id: UUID,
    queue_id: UUID,
    change: RightChange,
    now: datetime,
) -> RightView:
    """Give a group a right on a queue, or replace the one it has."""
    found = there(await session.get(Group, group_id), "group")
    queue = there(await session.get(Queue, queue_id), "queue")
    before = await queries.right(session, group_id, queue_id)
    await queries.set_right(session, group_id, queue_id, change.slots, change.priority)
    after = RightView(
        group_id=group_id,
        group=found.name,
        queue_id=queue_id,
        queue=queue.name,
        slots=change.slots,
        priority=change.priority,
    )
    thing = f"right of {found.name} on {queue.name}"
    record(session, actor, "set_right", thing, now, before=before, after=after)
    await session.commit()
    await _tell_members(session, services, group_id)
    return after


async def _tell_members(session: AsyncSession, services: Services, group_id: UUID) -> None:
    members = await queries.member_ids(session, group_id)
    await farm.tell(services, await farm.rights_set(session, members))


async def delete_right(
    session: AsyncSession,
    services: Services,
    actor: Actor,
    group_id: UUID,
    queue_id: UUID,
    now: datetime,
) -> None:
    """Take a group's right on a queue; what runs goes on, nothing new starts."""
    before = await queries.right(session, group_id, queue_id)
    if before is None:
        raise problems.NotFound("this group has no right on this queue")
    await queries.remove_right(session, group_id, queue_id)
    thing = f"right of {before.group} on {before.queue}"
    record(session, actor, "delete_right", thing, now, before=before)
    await session.commit()
    await _tell_members(session, services, group_id)
