"""Passwords: argon2id, hashed beside the event loop, and as slow for a user who is not there."""

from __future__ import annotations

import asyncio

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

SHORTEST = 10  #: characters
LONGEST = 200  #: a hash of megabytes would be a way to keep us busy

_HASHER = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)  # OWASP 2023
_NOBODY = _HASHER.hash("nobody has this password")
_TWO_AT_A_TIME = 2  #: so that sign-ins leave the machine its other work


class _Slots:
    """One limiter per event loop: tests have many."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._semaphore = asyncio.Semaphore(_TWO_AT_A_TIME)

    def here(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._semaphore = loop, asyncio.Semaphore(_TWO_AT_A_TIME)
        return self._semaphore


_slots = _Slots()


async def hashed(password: str) -> str:
    """Return the hash to store."""
    async with _slots.here():
        return await asyncio.to_thread(_HASHER.hash, password)


async def matches(stored: str | None, password: str) -> bool:
    """Tell whether the password is right; takes as long when there is no such user (None)."""
    async with _slots.here():
        return await asyncio.to_thread(_verify, stored or _NOBODY, password) and stored is not None


def _verify(stored: str, password: str) -> bool:
    try:
        return _HASHER.verify(stored, password)
    except (VerificationError, InvalidHashError):
        return False
