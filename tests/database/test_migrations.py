"""The revisions: one head, up from empty, down to empty, and no drift against the tables."""

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from backend.app.db import migrations, tables
from backend.app.db.engine import Engines
from backend.app.embedded_postgres import EmbeddedPostgres
from tests import postgres as databases


def _drift(connection: Connection) -> list[object]:
    context = MigrationContext.configure(
        connection, opts={"compare_type": True, "compare_server_default": True}
    )
    return list(compare_metadata(context, tables.metadata))


def test_there_is_one_head() -> None:
    assert len(ScriptDirectory.from_config(migrations.configuration()).get_heads()) == 1


async def test_the_migrated_database_is_what_the_tables_say(engines: Engines) -> None:
    async with engines.background.connect() as connection:
        assert await connection.run_sync(_drift) == []
        await connection.run_sync(lambda sync: command.check(migrations.configuration(sync)))


async def test_constraints_and_indexes_are_those_of_the_tables(
    engines: Engines, postgres: EmbeddedPostgres
) -> None:
    """Autogenerate compares neither CHECKs nor the WHERE of indexes, so this does."""
    async with databases.empty_database(postgres) as made:
        async with made.background.begin() as connection:
            await connection.run_sync(tables.metadata.create_all)
        assert await _definitions(engines) == await _definitions(made)


async def _definitions(engines: Engines) -> set[tuple[str, str]]:
    query = text(
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE connamespace = 'public'::regnamespace AND conname NOT LIKE 'alembic%' "
        "UNION SELECT indexname, indexdef FROM pg_indexes "
        "WHERE schemaname = 'public' AND tablename NOT LIKE 'alembic%'"
    )
    async with engines.background.connect() as connection:
        return {(name, definition) for name, definition in await connection.execute(query)}


async def test_upgrade_from_empty_downgrade_and_again(postgres: EmbeddedPostgres) -> None:
    async with databases.empty_database(postgres) as engines:
        for _ in range(2):
            await migrations.upgrade(engines.background)
            await migrations.require_head(engines.background)
            assert await _tables(engines) == {*tables.metadata.tables, "alembic_version"}
            await migrations.downgrade(engines.background, "base")
            assert await _tables(engines) == {"alembic_version"}


async def _tables(engines: Engines) -> set[str]:
    async with engines.background.connect() as connection:
        return await connection.run_sync(lambda sync: set(inspect(sync).get_table_names()))
