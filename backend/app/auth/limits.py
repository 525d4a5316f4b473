"""How often somebody may be wrong about a password: counted in memory, in a sliding window.

Counted per (account, address), so that guessing at an account from elsewhere does not lock its
owner out; and with ten times the allowance per account and per address alone.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from datetime import datetime

from backend.app import problems

_WIDER = 10
_MOST_KEYS = 50_000  #: the oldest are forgotten; each holds at most a few hundred numbers

Key = tuple[str, str]


class WrongPasswords:
    """Counts wrong answers."""

    def __init__(self, *, attempts: int, window_seconds: int) -> None:
        self._attempts = attempts
        self._window = window_seconds
        self._times: OrderedDict[Key, deque[float]] = OrderedDict()

    def check(self, account: str, address: str, now: datetime) -> None:
        """Raise TooMany when the allowance is used up; costs no hashing."""
        moment = now.timestamp()
        waits = [self._wait(key, allowed, moment) for key, allowed in self._keys(account, address)]
        if (wait := max(waits)) > 0:
            seconds = str(math.ceil(wait))
            raise problems.TooMany(
                f"too many wrong passwords; try again in {seconds} s",
                headers={"Retry-After": seconds},
            )

    def wrong(self, account: str, address: str, now: datetime) -> None:
        """Count one wrong answer."""
        for key, allowed in self._keys(account, address):
            times = self._times.setdefault(key, deque(maxlen=allowed))
            times.append(now.timestamp())
            self._times.move_to_end(key)
        while len(self._times) > _MOST_KEYS:
            self._times.popitem(last=False)

    def right(self, account: str, address: str) -> None:
        """Forget the wrong answers of this account from this address."""
        self._times.pop((account, address), None)

    def _keys(self, account: str, address: str) -> tuple[tuple[Key, int], ...]:
        return (
            ((account, address), self._attempts),
            ((account, ""), self._attempts * _WIDER),
            (("", address), self._attempts * _WIDER),
        )

    def _wait(self, key: Key, allowed: int, moment: float) -> float:
        times = self._times.get(key, ())
        recent = [time for time in times if time > moment - self._window]
        return recent[-allowed] + self._window - moment if len(recent) >= allowed else 0.0
