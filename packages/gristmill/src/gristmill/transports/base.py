"""What a transport is: something that runs a command and moves small files."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod

from gristmill.commands import Command, Output
from gristmill.errors import TransportError


class Transport(ABC):
    """The only I/O of the library. All methods raise TransportError when the way itself fails.

    `name` is shown in messages and keys the journal; `directory` is where commands start, ""
    when that is the home directory there.
    """

    name: str = ""
    directory: str = ""

    @abstractmethod
    def run(self, command: Command) -> Output:
        """Run it to its end, or until its timeout (then `Output.timed_out`).

        Raises ConnectionLost when it may have run and the answer was lost.
        """

    def put(self, path: str, data: bytes, *, executable: bool = False) -> None:
        """Write a file there, with its folders; `~/` is the home there. Replaces by rename."""
        target = shell_path(path)
        new = f"{target}.new.$$"
        mode = f"chmod 700 {new} && " if executable else ""
        script = f'mkdir -p "$(dirname {target})" && cat > {new} && {mode}mv -f {new} {target}'
        out = self.run(Command(("sh", "-c", script), data))
        if out.rc != 0:
            raise TransportError(f"{self.name}: {path} cannot be written: {out.said}")

    def get(self, path: str) -> bytes:
        """Read a file there. Raises FileNotFoundError."""
        target = shell_path(path)
        out = self.run(Command(("sh", "-c", f"[ -e {target} ] || exit 44; cat {target}")))
        if out.rc == 44:
            raise FileNotFoundError(f"{self.name}: there is no file {path}")
        if out.rc != 0:
            raise TransportError(f"{self.name}: {path} cannot be read: {out.said}")
        return out.stdout

    @abstractmethod
    def close(self) -> None:
        """End what is open. The transport can still be used; it opens again."""

    def has(self, command: str) -> bool:
        """Whether a program of this name is installed there."""
        return self.run(Command(("sh", "-c", 'command -v "$1"', "sh", command))).rc == 0


def shell_path(path: str) -> str:
    """A path as a shell word: quoted, except for a `~/` at its start."""
    if path.startswith("~/"):
        return '"$HOME"/' + shlex.quote(path[2:])
    return shlex.quote(path)
