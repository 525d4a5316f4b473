"""Output files on their way into the server's cache: moved where the folder is shared, else sent.

They are hashed here, after all processes of the job are gone; the server checks what it receives.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from backend.worker.connection import Connection, Fenced, Pauses, Refused, Unauthorised, Unreachable
from backend.worker.outcome import WrittenOutput, open_plain
from gristmill.protocol import OutputFile

CHUNK = 2**20
TRIES = 12


class StoreFailed(Exception):
    """An output could not be stored: the worker's or the server's fault, not the job's."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Stores the outputs of attempts."""

    connection: Connection
    pause: Callable[[float], None]

    def store(self, attempt: str, outputs: tuple[WrittenOutput, ...], cache: Path | None
              ) -> tuple[OutputFile, ...]:  # fmt: skip
        """Store all outputs. Raises StoreFailed; BadResult where one is no plain file."""
        return tuple(self._store(attempt, output, cache) for output in outputs)

    def _store(self, attempt: str, output: WrittenOutput, cache: Path | None) -> OutputFile:
        with os.fdopen(open_plain(output.path), "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = os.fstat(file.fileno()).st_size
            name = output.path.name
            try:
                if cache is not None:
                    _move(file, output.path, cache / "incoming" / attempt, name)
                else:
                    self._send(f"attempts/{attempt}/outputs/{name}", file, size, digest)
            except OSError as error:
                raise StoreFailed(_why(error)) from error
        return OutputFile(
            output=output.name,
            first=output.first,
            last=output.last,
            rows=output.rows,
            size=size,
            sha256=digest,
            path=name,
        )

    def _send(self, address: str, file: IO[bytes], size: int, digest: str) -> None:
        pauses, tries, before = Pauses(), 0, -1
        while tries < TRIES:
            try:
                offset = self._offset(address)
                if offset == size and offset:
                    return
                if offset > before:  # it goes on, only in pieces
                    tries, before = 0, offset
                    pauses.reset()
                params = {"offset": offset, "size": size, "sha256": digest}
                answer = self.connection.put(address, params, _from(file, offset))
                if "Upload-Offset" not in answer.headers or answer.is_success:
                    self.connection.check(answer)
                    return
                # else the server has another part of the file than we thought, or a damaged one
            except (Unreachable, Unauthorised):
                pass  # the next heartbeat brings a new token
            except (Refused, Fenced) as error:
                raise StoreFailed(f"the server does not take an output: {error}") from error
            tries += 1
            self.pause(pauses.next())
        raise StoreFailed("an output cannot be sent: the connection breaks again and again")

    def _offset(self, address: str) -> int:
        """Ask how much of a file the server has."""
        answer = self.connection.head(address)
        self.connection.check(answer)
        told = answer.headers.get("Upload-Offset", "0")
        return int(told) if told.isdigit() else 0


def _move(file: IO[bytes], path: Path, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / name
    try:
        path.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        file.seek(0)
        with target.open("wb") as copy:
            shutil.copyfileobj(file, copy, CHUNK)
    with contextlib.suppress(OSError):
        target.chmod(0o444)


def _from(file: IO[bytes], offset: int) -> Iterator[bytes]:
    file.seek(offset)
    while chunk := file.read(CHUNK):
        yield chunk


def _why(error: OSError) -> str:
    return f"an output cannot be stored: {error.strerror or error}"
