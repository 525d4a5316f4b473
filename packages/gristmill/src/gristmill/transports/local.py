"""Commands on this machine, as this user or through a prefix such as `sudo -u other`."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from gristmill.commands import Command, Output
from gristmill.errors import TransportError
from gristmill.transports.base import Transport


class LocalTransport(Transport):
    """Runs commands here. `prefix` is put before every argv (`("runuser", "-u", "x", "--")`)."""

    def __init__(self, prefix: Sequence[str] = (), directory: str | Path | None = None) -> None:
        self.prefix = tuple(prefix)
        self.name = "local" if not prefix else f"local({' '.join(prefix)})"
        self.directory = str(directory or Path.cwd())

    def run(self, command: Command) -> Output:
        argv = (*self.prefix, *command.argv)
        try:
            process = _Process(
                argv,
                stdin=subprocess.DEVNULL if command.stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment(command.env) if _matters(command.env) else None,
                cwd=self.directory,
                process_group=0,  # not a new session: that makes every start a millisecond slower
            )
        except FileNotFoundError as error:
            missing = error.filename or argv[0]
            raise TransportError(f"{missing} is not installed here (looked for on PATH)") from None
        except OSError as error:
            raise TransportError(f"{argv[0]} cannot be started: {error.strerror}") from None
        return _finish(process, command)

    def put(self, path: str, data: bytes, *, executable: bool = False) -> None:
        if self.prefix:
            super().put(path, data, executable=executable)
            return
        target = self._resolve(path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, new = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            if executable:
                Path(new).chmod(0o700)
            Path(new).replace(target)
        except OSError as error:
            raise TransportError(f"{path} cannot be written: {error.strerror}") from None

    def get(self, path: str) -> bytes:
        if self.prefix:
            return super().get(path)
        return self._resolve(path).read_bytes()

    def close(self) -> None:
        """Nothing is kept open."""

    def has(self, command: str) -> bool:
        return shutil.which(command) is not None

    def _resolve(self, path: str) -> Path:
        return Path(self.directory) / Path(path).expanduser()


class _Process(subprocess.Popen[bytes]):
    """Popen whose wait with a timeout is told of the end, instead of looking for it in steps."""

    def wait(self, timeout: float | None = None) -> int:
        if timeout is not None and self.returncode is None and hasattr(os, "pidfd_open"):
            handle = os.pidfd_open(self.pid)
            try:
                poll = select.poll()
                poll.register(handle, select.POLLIN)
                poll.poll(max(0.0, timeout) * 1000)
            finally:
                os.close(handle)
        return super().wait(timeout)


def _matters(changes: Mapping[str, str | None]) -> bool:
    """Whether anything is to be changed: to pass on what we have costs nothing."""
    if any(value is not None for value in changes.values()):
        return True
    starts = tuple(name.rstrip("*").encode() for name in changes)
    return bool(starts) and any(name.startswith(starts) for name in os.environb)


def environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """This process's environment with changes: None removes, a name may end in `*`."""
    removed = {name for name, value in changes.items() if value is None}
    prefixes = tuple(name[:-1] for name in removed if name.endswith("*"))
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in removed and not name.startswith(prefixes)
    }
    return kept | {name: value for name, value in changes.items() if value is not None}


def _finish(process: subprocess.Popen[bytes], command: Command) -> Output:
    try:
        stdout, stderr = process.communicate(command.stdin, command.timeout)
    except subprocess.TimeoutExpired as error:
        return _give_up(process, error)
    return Output(stdout, stderr, process.returncode)


def _give_up(process: subprocess.Popen[bytes], error: subprocess.TimeoutExpired) -> Output:
    """Kill it; a set-uid command (oarsub) may refuse to die, and is then left behind."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(2)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    return Output(error.output or b"", error.stderr or b"", rc=-1, timed_out=True)
