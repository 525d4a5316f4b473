"""What each worker is to do, as far as it is committed: what polls are answered from.

The farm may be ahead of the database while a commit is under way; the board never is.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from backend.scheduler.core.instructions import Close, Instruction, Lease, Revoke, SetWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The answer to a worker's poll."""

    leases: tuple[Lease, ...] = ()  #: to run: leased to it, not yet among what it runs
    cancel: tuple[str, ...] = ()  #: attempts to kill, or that are not the worker's any more

    def __bool__(self) -> bool:
        return bool(self.leases or self.cancel)


class Board:
    """The open leases by worker, and a bell for each worker that waits."""

    def __init__(self) -> None:
        self._leases: dict[str, dict[str, Lease]] = defaultdict(dict)
        self._owner: dict[str, str] = {}  # attempt -> worker
        self._revoked: set[str] = set()
        self._bells: dict[str, set[asyncio.Event]] = defaultdict(set)

    def reset(self, leases: Iterable[Lease], revoked: Iterable[str]) -> None:
        """Start again from what a restored farm holds; everybody looks again."""
        self._leases.clear()
        self._owner.clear()
        for lease in leases:
            self._open(lease)
        self._revoked = set(revoked)
        for worker in tuple(self._bells):
            self._ring(worker)

    def apply(self, instructions: Iterable[Instruction]) -> None:
        """Take over what was committed, and wake the workers whom it concerns."""
        concerned: set[str] = set()
        for instruction in instructions:
            match instruction:
                case Lease(worker=worker):
                    self._open(instruction)
                    concerned.add(worker)
                case Revoke(attempt=attempt, worker=worker):
                    self._revoked.add(attempt)
                    concerned.add(worker)
                case Close(attempt=attempt):
                    self._close(attempt)
                case SetWorker(worker=worker):
                    concerned.add(worker)
                case _:
                    pass
        for worker in concerned:
            self._ring(worker)

    def holds(self, attempt: str, worker: str) -> bool:
        """Say whether the attempt is open and this worker's."""
        return self._owner.get(attempt) == worker

    def leases(self, worker: str) -> tuple[Lease, ...]:
        """Return all open leases of a worker, revoked ones too."""
        return tuple(self._leases.get(worker, {}).values())

    def work(self, worker: str, running: Collection[str]) -> Work:
        """Return what a worker that runs `running` does not know yet."""
        known = frozenset(running)
        held = self._leases.get(worker, {})
        new = tuple(
            lease
            for attempt, lease in held.items()
            if attempt not in known and attempt not in self._revoked
        )
        return Work(leases=new, cancel=self.cancels(worker, running))

    def cancels(self, worker: str, running: Collection[str]) -> tuple[str, ...]:
        """Return the attempts among `running` to kill: revoked, or not this worker's."""
        return tuple(
            attempt
            for attempt in running
            if attempt in self._revoked or not self.holds(attempt, worker)
        )

    def never_begun(self, worker: str, running: Collection[str]) -> tuple[str, ...]:
        """Return the revoked leases that the polling worker does not have: nothing to kill."""
        known = frozenset(running)
        held = self._leases.get(worker, {})
        return tuple(a for a in held if a in self._revoked and a not in known)

    async def wait(self, worker: str, seconds: float) -> None:
        """Wait until something concerns the worker, `seconds` at most."""
        bell = asyncio.Event()
        self._bells[worker].add(bell)
        try:
            async with asyncio.timeout(seconds):
                await bell.wait()
        except TimeoutError:
            return
        finally:
            self._forget(worker, bell)

    def _forget(self, worker: str, bell: asyncio.Event) -> None:
        self._bells[worker].discard(bell)
        if not self._bells[worker]:
            del self._bells[worker]

    def _open(self, lease: Lease) -> None:
        self._leases[lease.worker][lease.attempt] = lease
        self._owner[lease.attempt] = lease.worker

    def _close(self, attempt: str) -> None:
        worker = self._owner.pop(attempt, None)
        self._revoked.discard(attempt)
        if worker is not None:
            del self._leases[worker][attempt]
            if not self._leases[worker]:
                del self._leases[worker]

    def _ring(self, worker: str) -> None:
        for bell in self._bells.get(worker, ()):
            bell.set()
