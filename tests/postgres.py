"""One embedded PostgreSQL for the whole run, and a fresh database in milliseconds from it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator

import asyncpg

from backend.app.db import engine, migrations
from backend.app.db.engine import Engines
from backend.app.embedded_postgres import NAME, EmbeddedPostgres

#: A crash of the machine may lose a test database: nobody waits for the disk.
OPTIONS = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}
TEMPLATE = "template_of_tests"
_numbers = itertools.count(1)


def make_template(server: EmbeddedPostgres) -> None:
    """Make the database, migrated and empty, that every test's database is a copy of."""
    asyncio.run(_make_template(server))


async def _make_template(server: EmbeddedPostgres) -> None:
    await execute(server, f"CREATE DATABASE {TEMPLATE}")
    engines = engine.connect(server.url(TEMPLATE))
    await migrations.upgrade(engines.background)
    await engines.dispose()


async def execute(server: EmbeddedPostgres, statement: str, database: str = NAME) -> None:
    """Run one statement outside any transaction."""
    dsn = server.url(database).replace("postgresql+asyncpg", "postgresql")
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def create_database(server: EmbeddedPostgres, template: str = TEMPLATE) -> str:
    """Return the name of a new database, a copy of the template."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    await execute(server, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    return name


async def drop_database(server: EmbeddedPostgres, name: str) -> None:
    """Drop a database, and whoever is still connected to it."""
    await execute(server, f"DROP DATABASE {name} WITH (FORCE)")


@contextlib.asynccontextmanager
async def empty_database(server: EmbeddedPostgres) -> AsyncIterator[Engines]:
    """Give connections to a database without any table; both are gone afterwards."""
    name = await create_database(server, template="template0")
    engines = engine.connect(server.url(name))
    try:
        yield engines
    finally:
        await engines.dispose()
        await drop_database(server, name)
