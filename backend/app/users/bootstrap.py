"""Making the first administrator, from the command line: no request, no session."""

from __future__ import annotations

from sqlalchemy import select
from sqlmodel import col

from backend.app.auth import passwords
from backend.app.clock import utc_now
from backend.app.db.engine import Engines
from backend.app.db.sessions import sessions
from backend.app.db.tables import Group, GroupMember, User
from gristmill.formats.names import OWNER

DEFAULT_GROUP = "default"  #: every user is in it
LONGEST_USERNAME = 64


class Refused(ValueError):
    """This administrator cannot be made; the message says why."""


class Taken(Refused):
    """There is a user of this name already."""


async def create_admin(engines: Engines, *, username: str, email: str, password: str) -> None:
    """Make a user who may do everything; raises Refused."""
    if not OWNER.fits(username) or len(username) > LONGEST_USERNAME:
        raise Refused(f"a username is {OWNER.letters}, at most {LONGEST_USERNAME} characters")
    if len(password) < passwords.SHORTEST:
        raise Refused(f"a password has at least {passwords.SHORTEST} characters")
    hashed = await passwords.hashed(password)
    async with sessions(engines.background)() as session:
        if await session.scalar(select(col(User.id)).where(col(User.username) == username)):
            raise Taken(f"there is a user {username!r} already")
        now = utc_now()
        group = await session.scalar(select(Group).where(col(Group.name) == DEFAULT_GROUP))
        if group is None:
            group = Group(name=DEFAULT_GROUP, description="Everybody", created_at=now)
            session.add(group)
        user = User(
            username=username, email=email, password_hash=hashed, admin=True, created_at=now
        )
        session.add(user)
        await session.flush()
        session.add(GroupMember(group_id=group.id, user_id=user.id))
        await session.commit()
