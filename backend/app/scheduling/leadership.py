"""Who schedules: the process that holds a PostgreSQL advisory lock.

The lock is held by the very connection that the store commits on. When the connection dies the
lock is gone, and so is the only way to commit: two processes can never both schedule.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.scheduler.ports import LeadershipLostError

log = logging.getLogger(__name__)

LOCK = 0x67726973746D  #: "gristm"; advisory locks are per database
POLL_SECONDS = 0.5  #: a standby asks so often
#: A leader whose machine vanished is found out by the server within about six seconds.
KEEPALIVE = (
    "SELECT set_config('tcp_keepalives_idle', '2', false),"
    " set_config('tcp_keepalives_interval', '1', false),"
    " set_config('tcp_keepalives_count', '4', false),"
    # Plans made when the tables were small must not outlive that.
    " set_config('plan_cache_mode', 'force_custom_plan', false)"
)


class PostgresLeadership:
    """An advisory lock on a connection of its own."""

    def __init__(self, engine: AsyncEngine, *, poll_seconds: float = POLL_SECONDS) -> None:
        self._engine = engine
        self._poll_seconds = poll_seconds
        self._held: AsyncConnection | None = None
        self._driver: Any = None

    async def acquire(self) -> None:
        """Wait until this process holds the lock."""
        while not await self._try():  # noqa: ASYNC110  (another process lets go of it)
            await asyncio.sleep(self._poll_seconds)

    async def _try(self) -> bool:
        if self._held is not None:
            await self.release()
        connection = await self._engine.connect()
        try:
            driver = await driver_of(connection)
            await driver.execute(KEEPALIVE)
            if await driver.fetchval("SELECT pg_try_advisory_lock($1)", LOCK):
                self._held, self._driver = connection, driver
                return True
        except BaseException:
            await connection.invalidate()
            raise
        await connection.close()
        return False

    async def check(self) -> None:
        """Raise LeadershipLostError when the connection with the lock is gone."""
        if self._driver is None or self._driver.is_closed():
            raise LeadershipLostError("the connection that held the scheduler's lock is gone")

    async def release(self) -> None:
        """Give the lock up by closing its connection."""
        held, self._held, self._driver = self._held, None, None
        if held is not None:
            with contextlib.suppress(Exception):
                await held.invalidate()
            with contextlib.suppress(Exception):
                await held.close()

    def connection(self) -> Any:
        """Return the connection that holds the lock; LeadershipLostError if there is none."""
        if self._driver is None or self._driver.is_closed():
            raise LeadershipLostError("this process does not hold the scheduler's lock")
        return self._driver


async def driver_of(connection: AsyncConnection) -> Any:
    """Return asyncpg's own connection below SQLAlchemy's."""
    raw = await connection.get_raw_connection()
    return raw.driver_connection
