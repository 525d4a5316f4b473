"""The schema's revisions: upgrade, and the check that the database is where the code is."""

from __future__ import annotations

import asyncio
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

import backend


class WrongRevision(RuntimeError):
    """The database's schema is not the one that this code was written for."""


def folder() -> Path:
    """Return the folder of env.py and versions/: beside the source, or inside the wheel."""
    package = Path(backend.__file__).parent
    beside = package.parent / "alembic"
    return beside if (beside / "env.py").exists() else package / "migrations"


def configuration(connection: Connection | None = None) -> Config:
    """Return alembic's configuration; env.py takes the connection from it."""
    config = Config()
    config.set_main_option("script_location", str(folder()))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def head() -> str:
    """Return the newest revision; there is exactly one."""
    revision = ScriptDirectory.from_config(configuration()).get_current_head()
    assert revision is not None
    return revision


async def upgrade(engine: AsyncEngine, revision: str = "head") -> None:
    """Bring the database's schema to a revision (newer ones only)."""
    async with engine.begin() as connection:
        await connection.run_sync(lambda sync: command.upgrade(configuration(sync), revision))


async def downgrade(engine: AsyncEngine, revision: str) -> None:
    """Take the database's schema back to a revision; "base" empties it."""
    async with engine.begin() as connection:
        await connection.run_sync(lambda sync: command.downgrade(configuration(sync), revision))


async def current(engine: AsyncEngine) -> str | None:
    """Return the revision that the database is at."""
    async with engine.connect() as connection:
        return await connection.run_sync(
            lambda sync: MigrationContext.configure(sync).get_current_revision()
        )


async def require_head(engine: AsyncEngine) -> None:
    """Raise WrongRevision unless the database is exactly at our head."""
    found, wanted = await current(engine), await asyncio.to_thread(head)
    if found != wanted:
        raise WrongRevision(
            f"the database is at revision {found or 'none'}, this version needs {wanted}: "
            "run `python -m backend.app migrate`"
        )
