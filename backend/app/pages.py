"""Lists: `{items, next}` with `?limit=&cursor=`. A cursor is opaque, signed, and of one list.

A list is ordered by columns whose values together are unique (the last one is the id); a cursor
holds the values of the last row, so that rows made meanwhile shift nothing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from fastapi import Depends, Query, Request
from pydantic import BaseModel, Field
from sqlalchemy import Select, literal, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from backend.app import problems
from backend.app.auth.keys import Audience, Keys
from backend.app.services import TheServices

DEFAULT_LIMIT = 50
MOST = 200
_MAC_BYTES = 16

T = TypeVar("T")
Rows = Select[*tuple[Any, ...]]  #: a query of anything


class Page(BaseModel, Generic[T]):
    """A part of a list."""

    items: list[T]
    next: str | None = Field(default=None, description="cursor of the next part; null at the end")


@dataclass(frozen=True, slots=True)
class Paging:
    """Which part of a list is asked for."""

    limit: int
    cursor: str | None
    list_name: str
    keys: Keys

    def after(self) -> list[Any] | None:
        """Return the sort values of the row before this part; raises Invalid."""
        if self.cursor is None:
            return None
        try:
            raw = base64.urlsafe_b64decode(self.cursor + "=" * (-len(self.cursor) % 4))
            mac, text = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        except ValueError:
            mac, text = b"", b""
        if not any(hmac.compare_digest(mac, found) for found in self._macs(text)):
            raise problems.invalid("query.cursor", "this is no cursor of this list", "cursor")
        return [_decoded(value) for value in json.loads(text)]

    def next(self, values: Sequence[Any]) -> str:
        """Return the cursor of the part behind a row of these sort values."""
        text = json.dumps([_encoded(value) for value in values]).encode()
        return base64.urlsafe_b64encode(self._macs(text)[0] + text).decode().rstrip("=")

    def _macs(self, text: bytes) -> list[bytes]:
        message = self.list_name.encode() + b"\0" + text
        return [
            hmac.digest(key.secret, message, hashlib.sha256)[:_MAC_BYTES]
            for key in self.keys.sets[Audience.CURSOR]
        ]


async def paging(
    request: Request,
    services: TheServices,
    limit: Annotated[int, Query(ge=1, le=MOST, description="items at most")] = DEFAULT_LIMIT,
    cursor: Annotated[str | None, Query(max_length=2000, description="`next` of before")] = None,
) -> Paging:
    """Return which part of the list of this route is asked for."""
    return Paging(limit, cursor, request.url.path, services.keys)


Part = Annotated[Paging, Depends(paging)]


async def page(
    session: AsyncSession,
    query: Rows,
    columns: Sequence[Any],
    part: Paging,
    *,
    descending: bool = False,
) -> tuple[list[Any], str | None]:
    """Return the rows of a part, and the cursor of the next.

    `columns` are the sort columns; the rows must have attributes of these names.
    """
    key = tuple_(*columns)
    if (values := part.after()) is not None:
        bound = tuple_(*(literal(value, c.type) for value, c in zip(values, columns, strict=True)))
        query = query.where(key < bound if descending else key > bound)
    order = [column.desc() if descending else column.asc() for column in columns]
    found = (await session.execute(query.order_by(*order).limit(part.limit + 1))).all()
    rows = [row[0] if len(row) == 1 else row for row in found]
    if len(rows) <= part.limit:
        return rows, None
    rows = rows[: part.limit]
    return rows, part.next([_value(rows[-1], column) for column in columns])


def _value(row: Any, column: Any) -> Any:
    holder = row if hasattr(row, column.key) else row[0]
    return getattr(holder, column.key)


async def listed(
    session: AsyncSession,
    query: Rows,
    columns: Sequence[Any],
    part: Paging,
    view: Callable[[Any], T],
    *,
    descending: bool = False,
) -> Page[T]:
    """Return a part of a list, each row as `view` shows it."""
    rows, cursor = await page(session, query, columns, part, descending=descending)
    return Page(items=[view(row) for row in rows], next=cursor)


def _encoded(value: Any) -> Any:
    match value:
        case UUID():
            return {"u": str(value)}
        case datetime():
            return {"t": value.isoformat()}
        case _:
            return value


def _decoded(value: Any) -> Any:
    match value:
        case {"u": str(text)}:
            return UUID(text)
        case {"t": str(text)}:
            return datetime.fromisoformat(text)
        case _:
            return value
