"""Who is asking: the dependencies that endpoints name in their signatures.

- `CurrentUser`: somebody signed in, by cookie, access token or personal token. A personal token
  needs the scope `read` for GET and HEAD, `write` for everything else.
- `SignedIn`: as above, but by password: a personal token cannot make tokens or change passwords.
- `Admin`: an administrator; a personal token needs the scope `admin` besides.
- `WorkerToken`: a worker, by the short token of its registration.
- `WorkerCredentialToken`: a worker that registers, by its long-lived credential.

A route without one of these is open to everybody; tests/api/test_every_route.py holds the list of
those few. For sockets: `of_connection` (cookie or Authorization) and `of_bearer`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Security
from fastapi.security import APIKeyCookie, HTTPBearer, OAuth2PasswordBearer
from starlette.requests import HTTPConnection, Request

from backend.app import problems
from backend.app.auth import jwt, opaque, queries
from backend.app.auth.keys import Audience
from backend.app.auth.opaque import Kind
from backend.app.clock import Now
from backend.app.db.tables import User
from backend.app.middleware import SAFE_METHODS
from backend.app.services import Services, TheServices

PLAIN_COOKIE = "gristmill_session"
HOST_COOKIE = "__Host-gristmill_session"

#: For the description of the API alone; nothing here authenticates.
_oauth2 = OAuth2PasswordBearer(
    tokenUrl="/api/v1/auth/token", refreshUrl="/api/v1/auth/refresh", auto_error=False
)
_cookie = APIKeyCookie(name=PLAIN_COOKIE, scheme_name="Session", auto_error=False)
_worker = HTTPBearer(scheme_name="Worker", auto_error=False)
_credential = HTTPBearer(scheme_name="WorkerCredential", auto_error=False)


class Scope(StrEnum):
    """What a personal token may be good for."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


class Via(StrEnum):
    """By what somebody showed who they are."""

    SESSION = "session"
    ACCESS_TOKEN = "access token"  # noqa: S105 - a kind
    PERSONAL_TOKEN = "personal token"  # noqa: S105 - a kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Somebody signed in."""

    id: UUID
    username: str
    admin: bool  #: an administrator, whose token is good for that
    scopes: frozenset[Scope]
    via: Via
    session: UUID | None = None  #: of the browser
    expires_at: datetime | None = None  #: of what they showed

    def may(self, scope: Scope) -> bool:
        """Tell whether what they showed is good for this."""
        return scope in self.scopes


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerActor:
    """A worker that has registered; whether its registration is still in force is looked up."""

    id: UUID
    name: str
    session: UUID
    credential: UUID
    expires_at: int  #: seconds since the epoch


def cookie_name(services: Services) -> str:
    """Return the name of the session's cookie."""
    return HOST_COOKIE if services.settings.secure_cookies else PLAIN_COOKIE


def fingerprint(user: User) -> str:
    """Return what an access token says about the password it was given for: it dies with it."""
    return hashlib.sha256(user.password_hash.encode()).hexdigest()[:16]


# ---- users --------------------------------------------------------------------------------


async def of_connection(
    connection: HTTPConnection, services: Services, now: datetime
) -> Actor | None:
    """Return who a request or socket comes from; a bearer counts before a cookie."""
    if (bearer := _bearer(connection)) is not None:
        return await of_bearer(services, bearer, now)
    cookie = connection.cookies.get(cookie_name(services), "")
    if not opaque.is_a(Kind.SESSION, cookie):
        return None
    return await _of_session(services, cookie, now)


async def of_bearer(services: Services, token: str, now: datetime) -> Actor | None:
    """Return whose access token or personal token this is."""
    if opaque.is_a(Kind.PERSONAL, token):
        return await _of_personal_token(services, token, now)
    return await _of_access_token(services, token, now)


def _bearer(connection: HTTPConnection) -> str | None:
    header = connection.headers.get("authorization")
    if header is None:
        return None
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def _of_session(services: Services, cookie: str, now: datetime) -> Actor | None:
    async with services.sessions() as session:
        found = await queries.browser_session(session, opaque.digest(cookie), now)
        if found is None:
            return None
        browser, user = found
        await queries.touch(session, browser, now)
        await session.commit()
    return Actor(
        id=user.id,
        username=user.username,
        admin=user.admin,
        scopes=frozenset(Scope),
        via=Via.SESSION,
        session=browser.id,
        expires_at=browser.expires_at,
    )


async def _of_personal_token(services: Services, token: str, now: datetime) -> Actor | None:
    async with services.sessions() as session:
        found = await queries.personal_token(session, opaque.digest(token), now)
        if found is None:
            return None
        personal, user = found
        await queries.touch(session, personal, now)
        await session.commit()
    scopes = frozenset(Scope(scope) for scope in personal.scopes)
    return Actor(
        id=user.id,
        username=user.username,
        admin=user.admin and Scope.ADMIN in scopes,
        scopes=scopes,
        via=Via.PERSONAL_TOKEN,
        expires_at=personal.expires_at,
    )


async def _of_access_token(services: Services, token: str, now: datetime) -> Actor | None:
    try:
        claims = jwt.verify(services.keys, Audience.ACCESS, token, now=now)
        user_id = UUID(claims["sub"])
    except ValueError:  # BadToken is one
        return None
    async with services.sessions() as session:
        user = await queries.active_user(session, user_id)
    if user is None or claims.get("pwd") != fingerprint(user):
        return None
    return Actor(
        id=user.id,
        username=user.username,
        admin=user.admin,
        scopes=frozenset(Scope),
        via=Via.ACCESS_TOKEN,
        expires_at=datetime.fromtimestamp(claims["exp"], now.tzinfo),
    )


async def current_user(
    request: Request,
    services: TheServices,
    now: Now,
    _described_by: Annotated[str | None, Depends(_oauth2)] = None,
    _or_by: Annotated[str | None, Security(_cookie)] = None,
) -> Actor:
    """Return who is asking; raises Unauthenticated, or Forbidden for a token without the scope."""
    actor = await of_connection(request, services, now)
    if actor is None:
        raise problems.Unauthenticated(
            "sign in, or send a bearer token that is valid; a token may have expired"
        )
    needed = Scope.READ if request.method in SAFE_METHODS else Scope.WRITE
    _require(actor, needed)
    request.state.actor = actor.username
    return actor


def _require(actor: Actor, scope: Scope) -> None:
    if not actor.may(scope):
        raise problems.Forbidden(
            f"this token has not the scope {scope.value!r} that this needs", code="scope"
        )


CurrentUser = Annotated[Actor, Depends(current_user)]


async def signed_in(actor: CurrentUser) -> Actor:
    """Return who is asking, if by password."""
    if actor.via is Via.PERSONAL_TOKEN:
        raise problems.Forbidden(
            "a personal token cannot do this: sign in with your password", code="sign_in"
        )
    return actor


async def admin(actor: CurrentUser) -> Actor:
    """Return the administrator who is asking."""
    if not actor.admin:
        raise problems.Forbidden(
            "only administrators may do this, and only with a token of scope 'admin'",
            code="admin_only",
        )
    return actor


SignedIn = Annotated[Actor, Depends(signed_in)]
Admin = Annotated[Actor, Depends(admin)]


# ---- workers ------------------------------------------------------------------------------


async def worker_token(
    request: Request,
    services: TheServices,
    now: Now,
    _described_by: Annotated[object, Security(_worker)] = None,
) -> WorkerActor:
    """Return the worker that is asking; raises Unauthenticated."""
    try:
        claims = jwt.verify(services.keys, Audience.WORKER, _bearer(request) or "", now=now)
        worker = WorkerActor(
            id=UUID(claims["sub"]),
            name=str(claims["name"]),
            session=UUID(claims["session"]),
            credential=UUID(claims["credential"]),
            expires_at=claims["exp"],
        )
    except (ValueError, KeyError, AttributeError, TypeError):
        raise problems.Unauthenticated(
            "this needs the token of a worker's registration; register again"
        ) from None
    if worker.credential in services.revoked_credentials:
        raise problems.Unauthenticated("this worker's credential was revoked", code="revoked")
    return worker


async def worker_credential(
    request: Request,
    services: TheServices,
    now: Now,
    _described_by: Annotated[object, Security(_credential)] = None,
) -> queries.Credential:
    """Return the credential that a worker registers with; raises Unauthenticated."""
    text = _bearer(request) or ""
    if opaque.is_a(Kind.WORKER, text):
        async with services.background() as session:
            found = await queries.worker_credential(session, opaque.digest(text), now)
            if found is not None:
                await session.commit()
                return found
    raise problems.Unauthenticated(
        "this needs a worker's credential (gristmill_wrk_…) that is neither revoked nor expired"
    )


WorkerToken = Annotated[WorkerActor, Depends(worker_token)]
WorkerCredentialToken = Annotated[queries.Credential, Depends(worker_credential)]


def issue_worker_token(
    services: Services, *, worker: UUID, name: str, session: UUID, credential: UUID, now: datetime
) -> tuple[str, int]:
    """Return a token for a registered worker, and for how many seconds it is good."""
    seconds = services.settings.worker_token_seconds
    claims = {"name": name, "session": str(session), "credential": str(credential)}
    token = jwt.sign(
        services.keys, Audience.WORKER, str(worker), seconds=seconds, now=now, claims=claims
    )
    return token, seconds
