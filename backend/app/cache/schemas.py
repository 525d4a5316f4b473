"""What goes over the wire about the cache. Sizes are bytes."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field


class CacheEntry(BaseModel):
    """Finished outputs under their key."""

    key: str
    algorithm: str
    environment: str
    size: int
    hits: int
    created_at: datetime
    used_at: datetime


class CacheView(BaseModel):
    """What the cache holds."""

    entries: int
    bytes: int
    hits: int
    needed_bytes: int = Field(description="of entries that experiments now running need")
    oldest_use: datetime | None
    files: int
    files_bytes: int
    incoming_bytes: int = Field(description="arriving from workers")
    free_bytes: int = Field(description="on the file system of the cache")
    largest: list[CacheEntry]


class CacheClean(BaseModel):
    """What to remove; never what a live experiment needs. Nothing given: all the rest."""

    model_config = ConfigDict(extra="forbid")
    older_than_seconds: int | None = Field(
        default=None, ge=0, le=10**10, description="not used for so long"
    )
    max_bytes: int | None = Field(
        default=None, ge=0, le=2**62, description="longest unused first, until this is left"
    )
    dry_run: bool = True


class CacheCleaned(BaseModel):
    """What was removed, or would be."""

    dry_run: bool
    entries: int
    bytes: int = Field(description="of the entries")
    freed_bytes: int = Field(description="on disk; less where entries share files")
