"""What does not go together with what is there: names taken, things in use, things not there."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from backend.app import problems
from backend.app.problems import Place

T = TypeVar("T")

UNIQUE_VIOLATION = "23505"
FOREIGN_KEY_VIOLATION = "23503"
RESTRICT_VIOLATION = "23001"


def there(found: T | None, what: str) -> T:
    """Return what was found; raises NotFound."""
    if found is None:
        raise problems.NotFound(f"there is no {what} with this id")
    return found


def in_use(detail: str, users: Collection[str]) -> problems.InUse:
    """Return the refusal to delete something, with who uses it."""
    places = [Place(pointer="", message=name, code="user") for name in users]
    return problems.InUse(detail, errors=places)


async def flush_unique(session: AsyncSession, pointer: str, taken: str) -> None:
    """Send what is pending; a name that is taken raises Conflict."""
    try:
        await session.flush()
    except IntegrityError as error:
        if getattr(error.orig, "sqlstate", "") != UNIQUE_VIOLATION:
            raise
        place = Place(pointer=pointer, message=taken, code="taken")
        raise problems.Conflict(taken, code="taken", errors=[place]) from None


async def flush_deleted(session: AsyncSession, detail: str) -> None:
    """Send a deletion; what came to use the thing at the last moment raises InUse."""
    try:
        await session.flush()
    except IntegrityError as error:
        if getattr(error.orig, "sqlstate", "") not in {FOREIGN_KEY_VIOLATION, RESTRICT_VIOLATION}:
            raise
        raise problems.InUse(detail) from None
