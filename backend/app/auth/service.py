"""Signing in and out, tokens and passwords."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from backend.app import problems
from backend.app.auth import jwt, opaque, passwords, queries
from backend.app.auth.actors import Actor, Scope, fingerprint
from backend.app.auth.keys import Audience
from backend.app.auth.opaque import Kind
from backend.app.auth.schemas import NewPersonalToken, Token
from backend.app.db.ids import uuid7
from backend.app.db.tables import BrowserSession, PersonalToken, RefreshToken, User
from backend.app.services import Services

MOST_PERSONAL_TOKENS = 50


async def authenticated(
    session: AsyncSession,
    services: Services,
    username: str,
    password: str,
    *,
    address: str,
    now: datetime,
) -> User:
    """Return the user whose password this is.

    Raises Unauthenticated, the same and as slowly for a wrong name as for a wrong password; or
    TooMany. The connection goes back to the pool while the password is hashed.
    """
    services.wrong_passwords.check(username, address, now)
    user = await queries.user_named(session, username)
    if user is not None:
        session.expunge(user)  # so that it stays readable
    await session.rollback()
    stored = user.password_hash if user is not None and user.active else None
    if not await passwords.matches(stored, password) or user is None:
        services.wrong_passwords.wrong(username, address, now)
        raise problems.Unauthenticated("wrong username or password", code="wrong_password")
    services.wrong_passwords.right(username, address)
    return user


async def open_session(session: AsyncSession, services: Services, user: User, now: datetime) -> str:
    """Return the cookie of a new browser session."""
    secret = opaque.make(Kind.SESSION)
    session.add(
        BrowserSession(
            secret_hash=opaque.digest(secret),
            user_id=user.id,
            created_at=now,
            used_at=now,
            expires_at=now + timedelta(seconds=services.settings.session_seconds),
        )
    )
    await session.commit()
    return secret


async def issue_token(
    session: AsyncSession,
    services: Services,
    user: User,
    now: datetime,
    family: UUID | None = None,
) -> Token:
    """Return an access token and a refresh token, of a new family or of one that goes on."""
    secret = opaque.make(Kind.REFRESH)
    session.add(
        RefreshToken(
            family=family or uuid7(),
            secret_hash=opaque.digest(secret),
            user_id=user.id,
            created_at=now,
            expires_at=now + timedelta(seconds=services.settings.refresh_token_seconds),
        )
    )
    await session.commit()
    seconds = services.settings.access_token_seconds
    access = jwt.sign(
        services.keys,
        Audience.ACCESS,
        str(user.id),
        seconds=seconds,
        now=now,
        claims={"pwd": fingerprint(user)},
    )
    return Token(access_token=access, refresh_token=secret, expires_in=seconds)


async def refresh(session: AsyncSession, services: Services, secret: str, now: datetime) -> Token:
    """Exchange a refresh token for the next pair.

    Used a second time, it is in two hands: everything that came of that sign-in is revoked.
    """
    refused = problems.Unauthenticated("this refresh token is not valid; sign in again")
    if not opaque.is_a(Kind.REFRESH, secret):
        raise refused
    found = await queries.refresh_token(session, opaque.digest(secret))
    if found is None or found.revoked_at is not None or found.expires_at <= now:
        raise refused
    if found.used_at is not None:
        await queries.revoke_family(session, found.family, now)
        await session.commit()
        raise problems.Unauthenticated(
            "this refresh token was used before: everything of that sign-in is revoked",
            code="refresh_reuse",
        )
    user = await queries.active_user(session, found.user_id)
    if user is None:
        raise refused
    found.used_at = now
    return await issue_token(session, services, user, now, found.family)


async def make_personal_token(
    session: AsyncSession, actor: Actor, wanted: NewPersonalToken, now: datetime
) -> tuple[PersonalToken, str]:
    """Return a new personal token and its secret."""
    if wanted.expires_at is not None and wanted.expires_at <= now:
        raise problems.invalid("/expires_at", "this is in the past", "past")
    if Scope.ADMIN in wanted.scopes and not actor.admin:
        raise problems.invalid("/scopes", "only administrators have the scope 'admin'", "scope")
    if len(await queries.personal_tokens_of(session, actor.id)) >= MOST_PERSONAL_TOKENS:
        raise problems.Conflict(
            f"you have {MOST_PERSONAL_TOKENS} personal tokens: delete one first", code="too_many"
        )
    secret = opaque.make(Kind.PERSONAL)
    token = PersonalToken(
        user_id=actor.id,
        name=wanted.name,
        secret_hash=opaque.digest(secret),
        scopes=_each_once(wanted.scopes),
        created_at=now,
        expires_at=wanted.expires_at,
    )
    session.add(token)
    await session.commit()
    return token, secret


def _each_once(scopes: Sequence[Scope]) -> list[str]:
    return [scope.value for scope in Scope if scope in scopes]


async def delete_personal_token(session: AsyncSession, actor: Actor, token_id: UUID) -> None:
    """Delete one of the actor's tokens; raises NotFound for anybody else's."""
    token = await session.get(PersonalToken, token_id)
    if token is None or token.user_id != actor.id:
        raise problems.NotFound("you have no personal token with this id")
    await session.delete(token)
    await session.commit()


async def change_password(
    session: AsyncSession,
    services: Services,
    actor: Actor,
    current: str,
    new: str,
    *,
    address: str,
    now: datetime,
) -> None:
    """Replace one's password, which signs one out everywhere."""
    await authenticated(session, services, actor.username, current, address=address, now=now)
    hashed = await passwords.hashed(new)
    user = await session.get_one(User, actor.id, populate_existing=True)
    user.password_hash = hashed
    await queries.end_all(session, user.id, now)
    await session.commit()
