"""For tests of drivers and of programs that use the library: transports that run nothing real.

`FakeTransport` answers from a list or a function, and remembers what it was asked.
`recorded(path)` reads outputs in the form in which this project keeps them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gristmill.commands import Command, Output
from gristmill.transports.base import Transport

if TYPE_CHECKING:
    from gristmill.conformance import Limits
    from gristmill.service import ResourceManager


class FakeTransport(Transport):
    """Answers commands from `answers`: a function, or outputs to be given one after the other.

    `ran` are the commands it was asked to run, `files` the files put there, by path.
    """

    name = "fake"

    def __init__(self, answers: Callable[[Command], Output] | Iterable[Output]) -> None:
        self.ran: list[Command] = []
        self.files: dict[str, bytes] = {}
        self._answers = answers if callable(answers) else _one_by_one(answers)

    def run(self, command: Command) -> Output:
        self.ran.append(command)
        return self._answers(command)

    def put(self, path: str, data: bytes, *, executable: bool = False) -> None:
        self.files[path] = data

    def get(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def close(self) -> None:
        """Nothing is open."""


def _one_by_one(answers: Iterable[Output]) -> Callable[[Command], Output]:
    waiting = iter(list(answers))

    def answer(command: Command) -> Output:
        try:
            return next(waiting)
        except StopIteration:
            raise AssertionError(f"no recorded answer is left for {command.argv}") from None

    return answer


_ENTRY = re.compile(
    rb"^\$ (?P<command>[^\n]*)\n--- stdout\n(?P<stdout>.*?)"
    rb"--- stderr\n(?P<stderr>.*?)--- rc=(?P<rc>\d+)\n",
    re.DOTALL | re.MULTILINE,
)


def recorded(path: str | Path) -> dict[str, Output]:
    """The outputs in a file of entries `$ command`, `--- stdout`, `--- stderr`, `--- rc=N`.

    Keyed by command line; a command that was run twice has ` #2` and so on after it.
    """
    found: dict[str, Output] = {}
    for entry in _ENTRY.finditer(Path(path).read_bytes()):
        command = entry["command"].decode()
        key, count = command, 1
        while key in found:
            count += 1
            key = f"{command} #{count}"
        found[key] = Output(entry["stdout"], entry["stderr"], int(entry["rc"]))
    return found


def exercise(connect: Callable[[], ResourceManager], limits: Limits | None = None) -> None:
    """Run the conformance suite: see `gristmill.conformance`. Raises AssertionError."""
    from gristmill import conformance

    conformance.exercise(connect, limits)
