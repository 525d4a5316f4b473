"""Levels of loggers, changed while everything runs, and back by themselves after a time."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A logger that is louder or quieter than it was configured."""

    logger: str  #: "" is the root
    level: str
    before: int  #: the logger's own level
    until: datetime


@dataclass(slots=True)
class LogLevels:
    """The changes now in force; of this process."""

    changes: dict[str, Change] = field(default_factory=dict)
    _timers: dict[str, asyncio.TimerHandle] = field(default_factory=dict)

    def set(self, logger: str, level: str, seconds: int, now: datetime) -> None:
        """Set a level at once; it goes back after so many seconds."""
        before = self.changes[logger].before if logger in self.changes else _own_level(logger)
        self._forget_timer(logger)
        logging.getLogger(logger).setLevel(level)
        until = now + timedelta(seconds=seconds)
        self.changes[logger] = Change(logger=logger, level=level, before=before, until=until)
        loop = asyncio.get_running_loop()
        self._timers[logger] = loop.call_later(seconds, self.revert, logger)

    def revert(self, logger: str) -> None:
        """Put a logger back as it was."""
        change = self.changes.pop(logger, None)
        self._forget_timer(logger)
        if change is not None:
            logging.getLogger(logger).setLevel(change.before)

    def revert_all(self) -> None:
        """Put every logger back as it was."""
        for logger in list(self.changes):
            self.revert(logger)

    def _forget_timer(self, logger: str) -> None:
        timer = self._timers.pop(logger, None)
        if timer is not None:
            timer.cancel()


def _own_level(logger: str) -> int:
    return logging.getLogger(logger).level


def effective(logger: str) -> str:
    """Return the level that a logger has, by itself or from those above it."""
    return logging.getLevelName(logging.getLogger(logger).getEffectiveLevel())


def known() -> list[str]:
    """Return the loggers of our own code that exist, the root ("") first."""
    names = logging.root.manager.loggerDict
    ours = ("backend", "gristmill", "sqlalchemy.engine", "uvicorn.error")
    return ["", *sorted(name for name in names if name.startswith(ours))]
