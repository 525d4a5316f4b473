"""The scheduler's Splitter: ranges for a block whose inputs are in the cache."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from backend.app.cache import queries
from backend.app.cache.queries import Part
from backend.app.cache.splitter import Range, split_ranges, unit_bounds
from backend.app.cache.store import CacheStore
from backend.app.db.sessions import Sessions


@dataclass(frozen=True, slots=True)
class CacheSplitter:
    """Cuts where all inputs of the synchronised group have a common start of a data unit."""

    sessions: Sessions
    store: CacheStore

    async def plan(self, block: str, slots: int) -> Sequence[Range]:
        """Return at most `slots` ranges that cover the block's input; empty: do not cut."""
        async with self.sessions() as session:
            row = await queries.job_of(session, UUID(block))
            if row is None:
                return ()
            sources = [
                (row["reads"][port["name"]]["key"], row["reads"][port["name"]]["output"])
                for port in row["job"]["inputs"]
                if port["group"] == 0
            ]
            parts = await queries.parts_of(session, {key for key, _ in sources})
        if any(source not in parts for source in sources):
            return ()
        return await asyncio.to_thread(self._cut, [parts[source] for source in sources], slots)

    def _cut(self, inputs: list[list[Part]], slots: int) -> tuple[Range, ...]:
        bounds = [
            [unit for part in parts for unit in unit_bounds(self._path(part))] for parts in inputs
        ]
        return split_ranges(bounds, slots)

    def _path(self, part: Part) -> Path:
        return self.store.verified(part.sha256, part.size)
