"""What goes over the wire about users, groups and rights."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from backend.app.auth.schemas import NewPassword
from backend.app.texts import Email, Markdown, PlainName, Username

Reputation = Annotated[int, Field(ge=0, le=100_000, description="percent; 100 is neutral")]
Slots = Annotated[int, Field(ge=0, le=1_000_000)]
Priority = Annotated[int, Field(ge=-1_000_000, le=1_000_000)]


class GroupName(BaseModel):
    """A group, by name."""

    id: UUID
    name: str


class UserView(BaseModel):
    """A user, with the groups that they are in."""

    id: UUID
    username: str
    email: str
    reputation: int
    active: bool
    admin: bool
    groups: list[GroupName]
    created_at: datetime
    revision: int


class NewUser(BaseModel):
    """A user to make; in `default` from the start."""

    model_config = ConfigDict(extra="forbid")
    username: Username
    email: Email = ""
    password: NewPassword
    reputation: Reputation = 100
    active: bool = True
    admin: bool = False


class UserChange(BaseModel):
    """What to change of a user; what is left out stays."""

    model_config = ConfigDict(extra="forbid")
    email: Email = ""
    password: NewPassword = "left out: stays"  # noqa: S105 - never used, see exclude_unset
    reputation: Reputation = 100
    active: bool = True
    admin: bool = False


class MyChange(BaseModel):
    """What somebody may change of themselves."""

    model_config = ConfigDict(extra="forbid")
    email: Email


class GroupView(BaseModel):
    """A group."""

    id: UUID
    name: str
    description: str
    members: int = Field(description="how many")
    created_at: datetime
    revision: int


class NewGroup(BaseModel):
    """A group to make."""

    model_config = ConfigDict(extra="forbid")
    name: PlainName
    description: Markdown = ""


class GroupChange(BaseModel):
    """What to change of a group; what is left out stays."""

    model_config = ConfigDict(extra="forbid")
    name: PlainName = "-"
    description: Markdown = ""


class Member(BaseModel):
    """A member of a group."""

    id: UUID
    username: str


class RightView(BaseModel):
    """What the members of a group may hold of a queue."""

    group_id: UUID
    group: str
    queue_id: UUID
    queue: str
    slots: int
    priority: int


class RightChange(BaseModel):
    """The right to set."""

    model_config = ConfigDict(extra="forbid")
    slots: Slots
    priority: Priority = 0
