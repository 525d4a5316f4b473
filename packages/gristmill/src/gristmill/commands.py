"""A command to run and what came back: the values that pass between drivers and transports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Command:
    """An argv list, never a command line: only the ssh transport quotes.

    `env` adds variables; a value of None removes one, and a name that ends in `*` with None
    removes every variable that begins so (`{"SBATCH_*": None}`).
    """

    argv: tuple[str, ...]
    stdin: bytes | None = None
    env: Mapping[str, str | None] = field(default_factory=dict)
    timeout: float = 60.0  #: seconds until the transport gives up on it


@dataclass(frozen=True, slots=True)
class Output:
    """What a command printed and its exit status. Bytes, because managers print anything.

    `timed_out`: the transport gave up waiting, so whether it took effect is not known.
    """

    stdout: bytes = b""
    stderr: bytes = b""
    rc: int = 0
    timed_out: bool = False

    @property
    def text(self) -> str:
        """stdout as text; what is not UTF-8 is shown as escapes and never raises."""
        return self.stdout.decode("utf-8", "backslashreplace")

    @property
    def error_text(self) -> str:
        """stderr as text, in the same way."""
        return self.stderr.decode("utf-8", "backslashreplace")

    @property
    def said(self) -> str:
        """What to show a person: stderr, or stdout when stderr is empty."""
        return self.error_text.strip() or self.text.strip() or f"exit status {self.rc}, no output"


@dataclass(frozen=True, slots=True)
class Ask(Generic[T_co]):
    """A question to a manager: the command, and the pure function that reads the answer."""

    command: Command
    parse: Callable[[Output], T_co]
