"""Sessions as the signatures of endpoints name them: `ReadSession`, `WriteSession`.

Both come from the requests pool of `app.state.services`. A WriteSession is committed by whoever
decides that the work is done (`await session.commit()` in the service), never in a teardown: an
answer must not leave before the commit, and events are told after it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from starlette.requests import HTTPConnection

Sessions = async_sessionmaker[AsyncSession]


def sessions(engine: AsyncEngine) -> Sessions:
    """Return a maker of sessions whose rows stay readable after the commit."""
    return async_sessionmaker(engine, expire_on_commit=False)


async def write_session(connection: HTTPConnection) -> AsyncIterator[AsyncSession]:
    """Yield a session; what is not committed is rolled back."""
    async with connection.app.state.services.sessions() as session:
        yield session


async def read_session(connection: HTTPConnection) -> AsyncIterator[AsyncSession]:
    """Yield a session in which PostgreSQL refuses every write."""
    async with connection.app.state.services.sessions() as session:
        await session.execute(text("SET TRANSACTION READ ONLY"))
        yield session


WriteSession = Annotated[AsyncSession, Depends(write_session)]
ReadSession = Annotated[AsyncSession, Depends(read_session)]
