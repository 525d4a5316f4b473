"""The one place of the application that asks what time it is; everything else is told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC)  # noqa: TID251 - this is the edge where time comes in


async def now(connection: HTTPConnection) -> datetime:
    """Return the time of this request, by the clock of the services."""
    moment: datetime = connection.app.state.services.clock()
    return moment


Now = Annotated[datetime, Depends(now)]
