"""Every SQL statement about users, groups and rights."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from backend.app.db import core
from backend.app.db.tables import Group, GroupMember, GroupQueueRight, Queue, User
from backend.app.pages import Rows
from backend.app.users.schemas import GroupName, GroupView, RightView, UserView

OWNED = (core.algorithm, core.library, core.data_format, core.toolchain, core.database)


async def me(session: AsyncSession, user_id: UUID) -> UserView:
    """Return a user who is there."""
    user = await session.get_one(User, user_id)
    return (await views(session, [user]))[0]


async def views(session: AsyncSession, users: Collection[User]) -> list[UserView]:
    """Return users with their groups, in the order given."""
    query = (
        select(col(GroupMember.user_id), col(Group.id), col(Group.name))
        .join(Group, col(Group.id) == col(GroupMember.group_id))
        .where(col(GroupMember.user_id).in_([user.id for user in users]))
        .order_by(col(Group.name))
    )
    groups: dict[UUID, list[GroupName]] = {user.id: [] for user in users}
    for user_id, group_id, name in await session.execute(query):
        groups[user_id].append(GroupName(id=group_id, name=name))
    return [
        UserView(**user.model_dump(exclude={"password_hash"}), groups=groups[user.id])
        for user in users
    ]


def users(search: str | None) -> Rows:
    """Return the query of users, those whose name or address holds a text."""
    query = select(User)
    if search:
        pattern = f"%{_escaped(search)}%"
        query = query.where(
            col(User.username).ilike(pattern, escape="\\")
            | col(User.email).ilike(pattern, escape="\\")
        )
    return query


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


async def locked_user(session: AsyncSession, user_id: UUID) -> User | None:
    """Return a user, locked until the end of the transaction."""
    return await session.get(User, user_id, with_for_update=True)


async def other_admins(session: AsyncSession, user_id: UUID) -> int:
    """Return how many other active administrators there are; locks them all."""
    query = (
        select(col(User.id))
        .where(col(User.admin), col(User.active), col(User.id) != user_id)
        .order_by(col(User.id))
        .with_for_update()
    )
    return len((await session.scalars(query)).all())


async def things_of(session: AsyncSession, user_id: UUID, most: int = 20) -> list[str]:
    """Return what a user owns, as far as it fits in an answer."""
    found: list[str] = []
    experiment = core.experiment
    query: Rows = select(experiment.c.owner, experiment.c.name)
    query = query.where(experiment.c.owner_id == user_id)
    for owner, name in await session.execute(query.order_by(experiment.c.id).limit(most)):
        found.append(f"experiment {owner}/{name}")
    for table in OWNED:
        columns = select(table.c.owner, table.c.name, table.c.version)
        rows: Rows = columns.where(table.c.owner_id == user_id).order_by(table.c.id).limit(most)
        for owner, name, version in await session.execute(rows):
            found.append(f"{table.name} {owner}/{name}/{version}")
    return found[:most]


# ---- groups -------------------------------------------------------------------------------


async def group_named(session: AsyncSession, name: str) -> Group | None:
    """Return a group by name."""
    return await session.scalar(select(Group).where(col(Group.name) == name))


async def locked_group(session: AsyncSession, group_id: UUID) -> Group | None:
    """Return a group, locked until the end of the transaction."""
    return await session.get(Group, group_id, with_for_update=True)


async def group_views(session: AsyncSession, groups: Collection[Group]) -> list[GroupView]:
    """Return groups with the numbers of their members, in the order given."""
    query = (
        select(col(GroupMember.group_id), func.count())
        .where(col(GroupMember.group_id).in_([group.id for group in groups]))
        .group_by(col(GroupMember.group_id))
    )
    counts = {row[0]: row[1] for row in await session.execute(query)}
    return [GroupView(**group.model_dump(), members=counts.get(group.id, 0)) for group in groups]


def members(group_id: UUID) -> Rows:
    """Return the query of a group's members."""
    return (
        select(User)
        .join(GroupMember, col(GroupMember.user_id) == col(User.id))
        .where(col(GroupMember.group_id) == group_id)
    )


async def member_ids(session: AsyncSession, group_id: UUID) -> list[UUID]:
    """Return the ids of a group's members."""
    query = select(col(GroupMember.user_id)).where(col(GroupMember.group_id) == group_id)
    return list(await session.scalars(query))


async def add_member(session: AsyncSession, group_id: UUID, user_id: UUID) -> bool:
    """Put a user in a group; False when they were in it."""
    statement = (
        insert(GroupMember)
        .values(group_id=group_id, user_id=user_id)
        .on_conflict_do_nothing()
        .returning(col(GroupMember.user_id))
    )
    return await session.scalar(statement) is not None


async def remove_member(session: AsyncSession, group_id: UUID, user_id: UUID) -> bool:
    """Take a user out of a group; False when they were not in it."""
    statement = (
        delete(GroupMember)
        .where(col(GroupMember.group_id) == group_id, col(GroupMember.user_id) == user_id)
        .returning(col(GroupMember.user_id))
    )
    return await session.scalar(statement) is not None


# ---- rights -------------------------------------------------------------------------------


def rights(group_id: UUID | None, queue_id: UUID | None) -> Rows:
    """Return the query of rights, those of a group or on a queue."""
    query: Rows = (
        select(GroupQueueRight, col(Group.name).label("group"), col(Queue.name).label("queue"))
        .join(Group, col(Group.id) == col(GroupQueueRight.group_id))
        .join(Queue, col(Queue.id) == col(GroupQueueRight.queue_id))
    )
    if group_id is not None:
        query = query.where(col(GroupQueueRight.group_id) == group_id)
    if queue_id is not None:
        query = query.where(col(GroupQueueRight.queue_id) == queue_id)
    return query


def right_view(row: Any) -> RightView:
    """Return a row of `rights` as it is shown."""
    right, group, queue = row
    return RightView(**right.model_dump(), group=group, queue=queue)


async def right(session: AsyncSession, group_id: UUID, queue_id: UUID) -> RightView | None:
    """Return one right."""
    row = (await session.execute(rights(group_id, queue_id))).one_or_none()
    return right_view(row) if row else None


async def set_right(
    session: AsyncSession, group_id: UUID, queue_id: UUID, slots: int, priority: int
) -> None:
    """Make or replace a right."""
    values = {"slots": slots, "priority": priority}
    statement = insert(GroupQueueRight).values(group_id=group_id, queue_id=queue_id, **values)
    await session.execute(
        statement.on_conflict_do_update(index_elements=["group_id", "queue_id"], set_=values)
    )


async def remove_right(session: AsyncSession, group_id: UUID, queue_id: UUID) -> None:
    """Remove a right."""
    await session.execute(
        delete(GroupQueueRight).where(
            col(GroupQueueRight.group_id) == group_id, col(GroupQueueRight.queue_id) == queue_id
        )
    )
