"""Everything the job library raises, under one root. Each says what, where and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gristmill.managers.base import Note


class GristmillError(Exception):
    """The root: whatever the library refuses or cannot do."""


class BadValue(GristmillError, ValueError):
    """A value that no manager could take (a negative walltime, an empty array)."""


class BadGroup(GristmillError, ValueError):
    """A group of jobs that cannot be ordered: a cycle, or a name used twice."""


class Unsupported(GristmillError):
    """The manager cannot do what was asked; nothing was sent.

    `manager` names it, `notes` hold one entry for each attribute refused.
    """

    def __init__(self, manager: str, what: str, notes: Sequence[Note] = ()) -> None:
        super().__init__(f"{manager} cannot do this: {what}")
        self.manager = manager
        self.notes = tuple(notes)


class UnknownManager(GristmillError, LookupError):
    """No driver of that name is installed."""


class UnknownJob(GristmillError, LookupError):
    """No job of that id is known to the manager, to its history or to the journal."""


class DependencyNeverSatisfied(GristmillError):
    """A job waits for something that can no longer happen, so it will never run."""


class CommandFailed(GristmillError):
    """A command of the manager failed; `stdout`, `stderr` and `rc` are what it said."""

    def __init__(self, text: str, *, rc: int = 1, stdout: str = "", stderr: str = "") -> None:
        super().__init__(text)
        self.rc = rc
        self.stdout = stdout
        self.stderr = stderr


class Refused(CommandFailed):
    """The manager understood and said no: asking again will not help."""


class Denied(Refused):
    """The manager says that this user may not do this."""


class Transient(CommandFailed):
    """The manager was busy or away, and surely did nothing: asking again may help."""


class Unclear(CommandFailed):
    """The command may or may not have had its effect: look before asking again."""


class HistoryUnavailable(CommandFailed):
    """The manager keeps no history here (no accounting database, say)."""


class ParseError(CommandFailed):
    """The manager printed something that the driver does not understand."""


class TransportError(GristmillError):
    """The way to the manager failed: a command is not installed, a connection was refused."""


class ConnectionLost(TransportError):
    """The connection broke while a command ran: whether it took effect is not known."""


class SubmitFailed(GristmillError):
    """A group could not be submitted whole; what had been submitted of it was cancelled.

    `cancelled` are the ids taken back; `left` those that could not be (cancel them by hand).
    """

    def __init__(self, text: str, cancelled: Sequence[str] = (), left: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.cancelled = tuple(cancelled)
        self.left = tuple(left)


class WaitTimeout(GristmillError, TimeoutError):
    """The jobs waited for had not ended within the time given."""
