"""What goes over the wire about libraries, algorithms, data formats, toolchains and databases."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from backend.app.db.visibility import Visibility
from backend.app.texts import Markdown
from gristmill.formats.names import LARGEST_VERSION

LARGEST_SOURCE = 1_000_000  #: characters
MOST_FILES = 200  #: of a library

Version = Annotated[int, Field(ge=1, le=LARGEST_VERSION)]
Source = Annotated[str, Field(max_length=LARGEST_SOURCE, description="Python")]
Files = Annotated[
    dict[str, Annotated[str, Field(max_length=LARGEST_SOURCE)]],
    Field(max_length=MOST_FILES, description="path -> text, of a library"),
]
Groups = Annotated[list[UUID], Field(max_length=100, description="that it is shared with")]


class DeclaredSummary(BaseModel):
    """A version of something declared, as lists show it."""

    id: UUID
    ref: str = Field(description="`owner/name/version`; of a database `name/version`")
    owner: str
    name: str
    version: int
    declaration: dict[str, Any] | None = Field(
        description="in BEAT's form; null in lists when it is large: get it alone"
    )
    description: str
    visibility: Visibility
    content_hash: str = Field(description="SHA-256 of what results depend on")
    frozen: bool = Field(description="an experiment has used it: it never changes again")
    created_at: datetime
    revision: int


class Declared(DeclaredSummary):
    """A version of something declared, whole."""

    documentation: str
    source: str | None = Field(default=None, description="of an algorithm or of a database's views")
    files: dict[str, str] | None = Field(default=None, description="of a library")
    groups: list[UUID] = Field(description="that it is shared with; shown to its owner")


class NewDeclared(BaseModel):
    """A version to declare; it is yours."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=100)
    version: Version | None = Field(default=None, description="the next one when left out")
    declaration: dict[str, Any]
    source: Source | None = None
    files: Files | None = None
    documentation: Markdown = ""
    visibility: Visibility = Visibility.PRIVATE
    groups: Groups = []


class DeclaredChange(BaseModel):
    """What to change; what is left out stays. Of a frozen version, its documentation alone."""

    model_config = ConfigDict(extra="forbid")
    declaration: dict[str, Any] = {}
    source: Source = ""
    files: Files = {}
    documentation: Markdown = ""


class Sharing(BaseModel):
    """Who may see it: its owner, the groups named, or everybody who is signed in."""

    model_config = ConfigDict(extra="forbid")
    visibility: Visibility
    groups: Groups = []


class DatabaseFileView(BaseModel):
    """An uploaded file of a database."""

    path: str
    size: int
    sha256: str
