"""What a transport is: something that runs a command and moves small files."""

from __future__ import annotations

from typing import Protocol

from gristmill.commands import Command, Output


class Transport(Protocol):
    """The only I/O of the library. All methods raise TransportError when the way itself fails."""

    name: str  #: in messages and in the journal: `local`, `ssh://host`

    def run(self, command: Command) -> Output:
        """Run it to its end, or until its timeout (then `Output.timed_out`)."""

    def put(self, path: str, data: bytes, *, executable: bool = False) -> None:
        """Write a file there, with its folders; `~/` is the home there. Replaces by rename."""

    def get(self, path: str) -> bytes:
        """Read a file there. Raises FileNotFoundError."""

    def close(self) -> None: ...


class AsyncTransport(Protocol):
    """The same, for an event loop."""

    name: str

    async def run(self, command: Command) -> Output: ...

    async def put(self, path: str, data: bytes, *, executable: bool = False) -> None: ...

    async def get(self, path: str) -> bytes: ...

    async def close(self) -> None: ...
