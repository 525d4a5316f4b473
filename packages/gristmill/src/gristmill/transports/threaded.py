"""Any transport for an event loop: its calls run in the loop's threads."""

from __future__ import annotations

import asyncio

from gristmill.commands import Command, Output
from gristmill.transports.base import Transport


class AsyncTransport:
    """The methods of a transport, awaitable. Commands run side by side."""

    def __init__(self, transport: Transport) -> None:
        self.inner = transport
        self.name = transport.name
        self.directory = transport.directory

    async def run(self, command: Command) -> Output:
        return await asyncio.to_thread(self.inner.run, command)

    async def put(self, path: str, data: bytes, *, executable: bool = False) -> None:
        await asyncio.to_thread(self.inner.put, path, data, executable=executable)

    async def get(self, path: str) -> bytes:
        return await asyncio.to_thread(self.inner.get, path)

    async def close(self) -> None:
        await asyncio.to_thread(self.inner.close)
