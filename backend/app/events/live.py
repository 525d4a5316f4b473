"""The hub's tasks: tell other processes, hear them, look after what was missed, feed the lists.

PostgreSQL's NOTIFY is a hint and may be lost; what it hints at is always read from the tables.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg
import structlog
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.app.db.ids import uuid7
from backend.app.db.sessions import Sessions
from backend.app.events import queries
from backend.app.events.hub import Hub
from backend.app.events.lists import ListFeed

log = structlog.stdlib.get_logger(__name__)

CHANNEL = "gristmill"
MOST_BYTES = 7_500  #: of one notification; PostgreSQL takes 8000
TELL_EVERY = 0.02  #: seconds in which hints are gathered
SWEEP_EVERY = 5.0  #: seconds between looks at the tables
RECONNECT = 1.0


@dataclass(slots=True, kw_only=True)
class Live:
    """What runs for the hub as long as the application does."""

    hub: Hub
    lists: ListFeed
    engine: AsyncEngine
    sessions: Sessions
    me: str = field(default_factory=lambda: str(uuid7()))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the tasks."""
        duties = (self._tell, self._hear, self._sweep, self.lists.run)
        tasks = [asyncio.create_task(_forever(duty)) for duty in duties]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _tell(self) -> None:
        while True:
            await self.hub.something_to_tell.wait()
            self.hub.something_to_tell.clear()
            messages, self.hub.outbox = list(self.hub.outbox), {}
            payloads = [{"payload": one} for one in payloads_of(self.me, messages)]
            async with self.engine.begin() as connection:
                await connection.execute(text(f"SELECT pg_notify('{CHANNEL}', :payload)"), payloads)
            await asyncio.sleep(TELL_EVERY)

    async def _hear(self) -> None:
        """Listen on a connection of its own; when it ends, begin again."""
        async with self.engine.connect() as connection:
            raw = (await connection.get_raw_connection()).driver_connection
            assert isinstance(raw, asyncpg.Connection)
            ended = asyncio.Event()
            raw.add_termination_listener(lambda _: ended.set())
            try:
                await raw.add_listener(CHANNEL, self._on_message)
                await ended.wait()
            finally:
                await connection.invalidate()
        raise ConnectionError("the listening connection ended")

    def _on_message(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        sender, messages = json.loads(str(payload))
        if sender != self.me:
            for message in messages:
                self.hub.hear(message)

    async def _sweep(self) -> None:
        """Find what no hint told: a crash may come between a commit and its notification."""
        while True:
            await asyncio.sleep(SWEEP_EVERY)
            followed = {UUID(experiment) for experiment in self.hub.followers}
            if not followed:
                continue
            async with self.sessions() as session:
                last = await queries.last_seqs(session, followed)
            for experiment in followed:
                self.hub.look(str(experiment), last.get(experiment))


def payloads_of(me: str, messages: list[str]) -> list[str]:
    """Return messages as notifications, none of them too long."""
    payloads, some, size = [], list[str](), 0
    for message in messages:
        if some and size + len(message) + 4 > MOST_BYTES:
            payloads.append(json.dumps([me, some]))
            some, size = [], 0
        some.append(message)
        size += len(message) + 4
    return [*payloads, json.dumps([me, some])] if some else payloads


async def _forever(duty: Callable[[], Any]) -> None:
    """Do a duty; when it breaks, say so and begin again."""
    while True:
        try:
            await duty()
        except Exception as error:
            log.warning("a duty broke and begins again", duty=duty.__qualname__, error=str(error))
        await asyncio.sleep(RECONNECT)
