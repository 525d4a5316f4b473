"""Flows: generators that yield I/O and are sent its results. One code for blocking and async."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from gristmill.commands import Ask, Command, Output
from gristmill.errors import ConnectionLost, GristmillError, Transient, Unclear
from gristmill.transports.base import Transport
from gristmill.transports.threaded import AsyncTransport

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Run:
    """Run a command. Sent back: its Output."""

    command: Command


@dataclass(frozen=True, slots=True)
class RunMany:
    """Run commands side by side. Sent back: for each its Output or the error of the transport."""

    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Put:
    """Write a file there."""

    path: str
    data: bytes
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Get:
    """Read a file there. Sent back: its bytes."""

    path: str


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait."""

    seconds: float


Step: TypeAlias = Run | RunMany | Put | Get | Sleep
Flow: TypeAlias = Generator[Step, Any, T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How stubborn the client is.

    `attempts` for each command, `first_delay` seconds before the second, doubling up to
    `max_delay`; `lookups` are the waits before each search for a job whose submission was not
    answered; `parallel` submissions run side by side.
    """

    attempts: int = 6
    first_delay: float = 0.5
    max_delay: float = 15.0
    lookups: tuple[float, ...] = (0.2, 0.5, 1.0, 2.0, 4.0)
    parallel: int = 4

    def delay(self, attempt: int) -> float:
        return min(self.max_delay, self.first_delay * 2.0**attempt)


def ask(question: Ask[T], policy: Policy) -> Flow[T]:
    """Ask something that may be asked twice; try again while the manager is busy or away."""
    attempt = 0
    while True:
        try:
            out: Output = yield Run(question.command)
            return question.parse(out)
        except (Transient, Unclear, ConnectionLost):
            attempt += 1
            if attempt >= policy.attempts:
                raise
        yield Sleep(policy.delay(attempt - 1))


def drive(flow: Flow[T], transport: Transport) -> T:
    """Run a flow to its end here and now."""
    result: Any = None
    error: BaseException | None = None
    try:
        while True:
            step = flow.send(result) if error is None else flow.throw(error)
            result, error = None, None
            try:
                result = _perform(step, transport)
            except (GristmillError, OSError, KeyboardInterrupt) as raised:
                error = raised
    except StopIteration as end:
        value: T = end.value
        return value


def _perform(step: Step, transport: Transport) -> Any:
    match step:
        case Run(command):
            return transport.run(command)
        case RunMany(commands):
            return _side_by_side(commands, transport)
        case Put(path, data, executable):
            return transport.put(path, data, executable=executable)
        case Get(path):
            return transport.get(path)
        case Sleep(seconds):
            return time.sleep(seconds)


def _side_by_side(
    commands: Sequence[Command], transport: Transport
) -> list[Output | GristmillError]:
    def run(command: Command) -> Output | GristmillError:
        try:
            return transport.run(command)
        except GristmillError as error:
            return error

    if len(commands) == 1:
        return [run(commands[0])]
    with ThreadPoolExecutor(len(commands)) as pool:
        return list(pool.map(run, commands))


async def adrive(flow: Flow[T], transport: AsyncTransport) -> T:
    """Run a flow to its end on the event loop."""
    result: Any = None
    error: BaseException | None = None
    try:
        while True:
            step = flow.send(result) if error is None else flow.throw(error)
            result, error = None, None
            try:
                result = await _aperform(step, transport)
            except (GristmillError, OSError, asyncio.CancelledError) as raised:
                error = raised
    except StopIteration as end:
        value: T = end.value
        return value


async def _aperform(step: Step, transport: AsyncTransport) -> Any:
    match step:
        case Run(command):
            return await transport.run(command)
        case RunMany(commands):
            runs = (transport.run(command) for command in commands)
            return await asyncio.gather(*runs, return_exceptions=True)
        case Put(path, data, executable):
            return await transport.put(path, data, executable=executable)
        case Get(path):
            return await transport.get(path)
        case Sleep(seconds):
            return await asyncio.sleep(seconds)
