"""Who looks at the list of experiments: each change of one goes to those who may see it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from backend.app.db.sessions import Sessions
from backend.app.events import frames, queries
from backend.app.events.hub import Hub
from backend.app.events.queries import Viewer
from backend.app.experiments import queries as experiments
from backend.app.experiments import views

GATHER = 0.2  #: seconds in which changes are gathered: one look at the tables for all of them


@dataclass(slots=True, eq=False)
class Reader:
    """A socket that shows the list."""

    viewer: Viewer
    send: Callable[[str], None]
    shown: dict[UUID, None] = field(default_factory=dict)  #: experiments it was told of


@dataclass(slots=True, eq=False)
class ListFeed:
    """All such sockets."""

    hub: Hub
    sessions: Sessions
    readers: set[Reader] = field(default_factory=set)

    async def run(self) -> None:
        """Send changed experiments, for ever."""
        while True:
            await self.hub.something_changed.wait()
            await asyncio.sleep(GATHER)
            self.hub.something_changed.clear()
            changed, self.hub.changed = list(self.hub.changed), {}
            if self.readers:
                await self._send([UUID(one) for one in changed])

    async def _send(self, changed: list[UUID]) -> None:
        async with self.sessions() as session:
            rows = await experiments.summaries(session, changed)
            counts = await experiments.counts(session, [row.id for row in rows])
            shares = await queries.groups_shared_with(session, [row.id for row in rows])
            members = await queries.groups_of(session, [r.viewer.id for r in self.readers])
        texts = {
            row.id: frames.summary(views.summary(row, counts[row.id]).model_dump(mode="json"))
            for row in rows
        }
        gone = [one for one in changed if one not in texts]
        for reader in list(self.readers):
            groups = members.get(reader.viewer.id, set())
            for row in rows:
                if _may_see(row, reader.viewer, groups, shares.get(row.id, set())):
                    reader.shown[row.id] = None
                    reader.send(texts[row.id])
            _send_gone(reader, gone)


def _may_see(row: Any, viewer: Viewer, groups: set[UUID], shared: set[UUID]) -> bool:
    return bool(
        viewer.admin
        or row.owner_id == viewer.id
        or row.visibility == "public"
        or (row.visibility == "shared" and groups & shared)
    )


def _send_gone(reader: Reader, gone: list[UUID]) -> None:
    """Say what is no more; only to those who knew of it, or may know of everything."""
    for one in gone:
        if reader.viewer.admin or one in reader.shown:
            reader.shown.pop(one, None)
            reader.send(frames.deleted(str(one)))
