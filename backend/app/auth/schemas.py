"""What goes over the wire about signing in."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from backend.app.auth import passwords
from backend.app.auth.actors import Scope

NewPassword = Annotated[str, Field(min_length=passwords.SHORTEST, max_length=passwords.LONGEST)]


class SignIn(BaseModel):
    """A browser signs in."""

    model_config = ConfigDict(extra="forbid")
    username: str = Field(min_length=1, max_length=64)
    password: str = Field(min_length=1, max_length=passwords.LONGEST)


class Token(BaseModel):
    """An access token, and the refresh token that gives the next one (once)."""

    access_token: str
    refresh_token: str
    token_type: Literal["bearer"] = "bearer"  # noqa: S105 - as OAuth2 calls it
    expires_in: int = Field(description="seconds that the access token is good for")


class Refresh(BaseModel):
    """A refresh token, to be used once: a second use revokes all that came of the sign-in."""

    model_config = ConfigDict(extra="forbid")
    refresh_token: str = Field(min_length=1, max_length=200)


class NewPersonalToken(BaseModel):
    """A token to make."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=1, max_length=100)
    scopes: list[Scope] = Field(default=[Scope.READ, Scope.WRITE], min_length=1, max_length=3)
    expires_at: AwareDatetime | None = None


class PersonalTokenView(BaseModel):
    """A personal token, without its secret."""

    id: UUID
    name: str
    scopes: list[Scope]
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None


class MadePersonalToken(PersonalTokenView):
    """A personal token just made; its secret is shown this once."""

    token: str


class ChangePassword(BaseModel):
    """Changing one's password signs out everywhere."""

    model_config = ConfigDict(extra="forbid")
    current_password: str = Field(min_length=1, max_length=passwords.LONGEST)
    new_password: NewPassword
