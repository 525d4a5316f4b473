"""The two pools of connections: one for requests, one for what must never wait for them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import make_url
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

SERVER_SETTINGS = {
    "application_name": "gristmill",
    "statement_timeout": "15s",
    "lock_timeout": "3s",
    "idle_in_transaction_session_timeout": "30s",
    "timezone": "UTC",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """A storm of page views empties `requests`, and never `background`."""

    requests: AsyncEngine
    background: AsyncEngine  #: scheduler, heartbeats, reports

    async def dispose(self) -> None:
        """Close every connection."""
        await self.requests.dispose()
        await self.background.dispose()


def connect(url: str) -> Engines:
    """Return both pools; nothing is opened before it is used."""
    return Engines(
        requests=_pool(url, size=10, overflow=5), background=_pool(url, size=10, overflow=5)
    )


def asyncpg_url(url: str) -> URL:
    """Take `postgres://…` and `postgresql://…` as people write them; other dialects are refused.

    Raises ValueError.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() not in {"postgresql", "postgres"}:
        raise ValueError(
            f"DATABASE_URL names {parsed.get_backend_name()!r}; Gristmill keeps its data in "
            "PostgreSQL: postgresql://user:password@host/database"
        )
    return parsed.set(drivername="postgresql+asyncpg")


def _pool(url: str, *, size: int, overflow: int) -> AsyncEngine:
    return create_async_engine(
        asyncpg_url(url),
        pool_size=size,
        max_overflow=overflow,
        pool_timeout=5,
        pool_pre_ping=True,
        pool_recycle=1800,
        connect_args={"server_settings": SERVER_SETTINGS},
    )
