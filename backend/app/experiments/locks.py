"""One start, stop or deletion of an experiment at a time in this process."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from uuid import UUID

KEPT = 1000  #: idle locks


@dataclass(slots=True)
class Locks:
    """A lock for each experiment that somebody acts on."""

    _locks: dict[UUID, asyncio.Lock] = field(default_factory=dict)

    def of(self, experiment: UUID) -> AbstractAsyncContextManager[None]:
        """Return the lock of an experiment."""
        if len(self._locks) > KEPT:
            self._locks = {k: lock for k, lock in self._locks.items() if lock.locked()}
        return self._locks.setdefault(experiment, asyncio.Lock())
