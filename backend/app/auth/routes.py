"""Endpoints of signing in and of tokens."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Form, Request, Response

from backend.app.auth import queries, service
from backend.app.auth.actors import CurrentUser, SignedIn, cookie_name
from backend.app.auth.schemas import (
    ChangePassword,
    MadePersonalToken,
    NewPersonalToken,
    PersonalTokenView,
    Refresh,
    SignIn,
    Token,
)
from backend.app.clock import Now
from backend.app.db.sessions import ReadSession, WriteSession
from backend.app.db.tables import PersonalToken
from backend.app.routing import api_router
from backend.app.services import Services, TheServices
from backend.app.users.queries import me
from backend.app.users.schemas import UserView

router = api_router("auth")


@router.post("/auth/session", status_code=201)
async def sign_in(
    body: SignIn,
    request: Request,
    response: Response,
    session: WriteSession,
    services: TheServices,
    now: Now,
) -> UserView:
    """Sign a browser in; the answer sets a cookie that scripts of the page cannot read."""
    user = await service.authenticated(
        session, services, body.username, body.password, address=address(request), now=now
    )
    secret = await service.open_session(session, services, user, now)
    _set_cookie(response, services, secret, services.settings.session_seconds)
    return await me(session, user.id)


@router.delete("/auth/session", status_code=204)
async def sign_out(
    actor: CurrentUser, response: Response, session: WriteSession, services: TheServices
) -> None:
    """Sign this browser out."""
    if actor.session is not None:
        await queries.end_session(session, actor.session)
        await session.commit()
    _set_cookie(response, services, "", 0)


def _set_cookie(response: Response, services: Services, value: str, seconds: int) -> None:
    response.set_cookie(
        cookie_name(services),
        value,
        max_age=seconds,
        path="/",
        secure=services.settings.secure_cookies,
        httponly=True,
        samesite="lax",
    )


def address(request: Request) -> str:
    """Return the peer's address, for limits; headers that a client can write are not looked at."""
    return request.client.host if request.client else ""


@router.post("/auth/token")
async def create_token(
    username: Annotated[str, Form(min_length=1, max_length=64)],
    password: Annotated[str, Form(min_length=1, max_length=200)],
    request: Request,
    session: WriteSession,
    services: TheServices,
    now: Now,
    grant_type: Annotated[str, Form(pattern="^password$")] = "password",
) -> Token:
    """Give a script an access token and a refresh token (OAuth2 password grant)."""
    user = await service.authenticated(
        session, services, username, password, address=address(request), now=now
    )
    return await service.issue_token(session, services, user, now)


@router.post("/auth/refresh")
async def refresh_token(
    body: Refresh, session: WriteSession, services: TheServices, now: Now
) -> Token:
    """Exchange a refresh token, once, for the next access and refresh tokens."""
    return await service.refresh(session, services, body.refresh_token, now)


@router.get("/me/tokens")
async def list_personal_tokens(actor: CurrentUser, session: ReadSession) -> list[PersonalTokenView]:
    """List your personal tokens, the newest first."""
    return [_view(token) for token in await queries.personal_tokens_of(session, actor.id)]


@router.post("/me/tokens", status_code=201)
async def create_personal_token(
    body: NewPersonalToken, actor: SignedIn, session: WriteSession, now: Now
) -> MadePersonalToken:
    """Make a personal token; its secret is shown this once."""
    token, secret = await service.make_personal_token(session, actor, body, now)
    return MadePersonalToken(**_view(token).model_dump(), token=secret)


@router.delete("/me/tokens/{token_id}", status_code=204)
async def delete_personal_token(token_id: UUID, actor: SignedIn, session: WriteSession) -> None:
    """Delete one of your personal tokens; it is worth nothing from now on."""
    await service.delete_personal_token(session, actor, token_id)


@router.put("/me/password", status_code=204)
async def change_password(
    body: ChangePassword,
    actor: SignedIn,
    request: Request,
    session: WriteSession,
    services: TheServices,
    now: Now,
) -> None:
    """Change your password; every browser and token of yours but personal ones is signed out."""
    await service.change_password(
        session,
        services,
        actor,
        body.current_password,
        body.new_password,
        address=address(request),
        now=now,
    )


def _view(token: PersonalToken) -> PersonalTokenView:
    return PersonalTokenView.model_validate(token, from_attributes=True)
