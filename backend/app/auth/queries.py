"""Every SQL statement about sessions and tokens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Mapped
from sqlmodel import col

from backend.app.db.tables import (
    BrowserSession,
    PersonalToken,
    RefreshToken,
    User,
    WorkerCredential,
)

TOUCH_EVERY = timedelta(minutes=1)  #: "last used" is as exact as this


@dataclass(frozen=True, slots=True)
class Credential:
    """A worker's credential that is in force."""

    id: UUID
    worker_name: str


async def active_user(session: AsyncSession, user_id: UUID) -> User | None:
    """Return a user who may sign in."""
    query = select(User).where(col(User.id) == user_id, col(User.active))
    return await session.scalar(query)


async def user_named(session: AsyncSession, username: str) -> User | None:
    """Return a user by name, whether active or not."""
    return await session.scalar(select(User).where(col(User.username) == username))


async def browser_session(
    session: AsyncSession, digest: bytes, now: datetime
) -> tuple[BrowserSession, User] | None:
    """Return a browser's session and its user, if both are in force."""
    query = (
        select(BrowserSession, User)
        .join(User, col(User.id) == col(BrowserSession.user_id))
        .where(
            col(BrowserSession.secret_hash) == digest,
            col(BrowserSession.expires_at) > now,
            col(User.active),
        )
    )
    row = (await session.execute(query)).one_or_none()
    return (row[0], row[1]) if row else None


async def personal_token(
    session: AsyncSession, digest: bytes, now: datetime
) -> tuple[PersonalToken, User] | None:
    """Return a personal token and its user, if both are in force."""
    query = (
        select(PersonalToken, User)
        .join(User, col(User.id) == col(PersonalToken.user_id))
        .where(
            col(PersonalToken.secret_hash) == digest,
            _in_force(col(PersonalToken.expires_at), now),
            col(User.active),
        )
    )
    row = (await session.execute(query)).one_or_none()
    return (row[0], row[1]) if row else None


def _in_force(expires: Mapped[datetime | None], now: datetime) -> ColumnElement[bool]:
    return or_(expires.is_(None), expires > now)


async def touch(session: AsyncSession, used: BrowserSession | PersonalToken, now: datetime) -> None:
    """Note the use, once a minute at most."""
    if used.used_at is None or now - used.used_at >= TOUCH_EVERY:
        used.used_at = now


async def worker_credential(
    session: AsyncSession, digest: bytes, now: datetime
) -> Credential | None:
    """Return a worker's credential that is in force, and note its use."""
    statement = (
        update(WorkerCredential)
        .where(
            col(WorkerCredential.secret_hash) == digest,
            col(WorkerCredential.revoked_at).is_(None),
            _in_force(col(WorkerCredential.expires_at), now),
        )
        .values(used_at=now)
        .returning(col(WorkerCredential.id), col(WorkerCredential.worker_name))
    )
    row = (await session.execute(statement)).one_or_none()
    return Credential(row[0], row[1]) if row else None


async def credentials_revoked_since(session: AsyncSession, moment: datetime) -> set[UUID]:
    """Return the credentials whose short tokens may still be about."""
    query = select(col(WorkerCredential.id)).where(col(WorkerCredential.revoked_at) >= moment)
    return set(await session.scalars(query))


async def refresh_token(session: AsyncSession, digest: bytes) -> RefreshToken | None:
    """Return a refresh token, in force or not, locked until the end of the transaction."""
    query = select(RefreshToken).where(col(RefreshToken.secret_hash) == digest).with_for_update()
    return await session.scalar(query)


async def revoke_family(session: AsyncSession, family: UUID, now: datetime) -> None:
    """Revoke every refresh token that came of one sign-in."""
    await session.execute(
        update(RefreshToken)
        .where(col(RefreshToken.family) == family, col(RefreshToken.revoked_at).is_(None))
        .values(revoked_at=now)
    )


async def end_session(session: AsyncSession, session_id: UUID) -> None:
    """Forget one browser."""
    await session.execute(delete(BrowserSession).where(col(BrowserSession.id) == session_id))


async def end_all(session: AsyncSession, user_id: UUID, now: datetime) -> None:
    """Sign a user out everywhere; personal tokens stay, they were not made of the password."""
    await session.execute(delete(BrowserSession).where(col(BrowserSession.user_id) == user_id))
    await session.execute(
        update(RefreshToken)
        .where(col(RefreshToken.user_id) == user_id, col(RefreshToken.revoked_at).is_(None))
        .values(revoked_at=now)
    )


async def personal_tokens_of(session: AsyncSession, user_id: UUID) -> list[PersonalToken]:
    """Return a user's personal tokens, the newest first."""
    query = (
        select(PersonalToken)
        .where(col(PersonalToken.user_id) == user_id)
        .order_by(col(PersonalToken.id).desc())
    )
    return list(await session.scalars(query))
