"""Alembic's entry: migrates over the connection that backend.app.db.migrations hands in."""

from typing import Any

import sqlmodel
from alembic import context

from backend.app.db import tables


def plain_strings(kind: str, item: Any, autogen: Any) -> Any:
    """Write sqlmodel's string type as SQLAlchemy's: a revision must not need sqlmodel."""
    if kind == "type" and isinstance(item, sqlmodel.AutoString):
        return f"sa.String(length={item.length})" if item.length else "sa.String()"
    return False


connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit("call `python -m backend.app migrate`; it knows the database")
connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
context.configure(
    connection=connection,
    target_metadata=tables.metadata,
    compare_type=True,
    compare_server_default=True,
    render_item=plain_strings,
)
with context.begin_transaction():
    context.run_migrations()
