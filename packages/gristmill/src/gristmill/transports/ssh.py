"""Commands on another machine, through OpenSSH's client and one shared connection.

The only place of the library that quotes for a shell. Marks around the output keep the banners
and start-up files of the other side out of it, and carry the exit status: where the closing mark
is missing the connection broke, whatever ssh itself says.
"""

from __future__ import annotations

import re
import secrets
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from gristmill.commands import Command, Output
from gristmill.errors import ConnectionLost, Transient, TransportError
from gristmill.transports.base import Transport
from gristmill.transports.local import LocalTransport

# what ssh says when it never got as far as running something
_NOT_CONNECTED = (
    r"Connection refused|Could not resolve|No route to host|Operation timed out|"
    r"connect to host .* port|Connection timed out|kex_exchange_identification|"
    r"Connection (?:closed|reset) by .* port"
)
_NOT_ADMITTED = r"Permission denied|Host key verification failed|Too many authentication failures"


class SshTransport(Transport):
    """Runs commands on `host` over one multiplexed connection, opened by the first of them.

    `jump` are hosts to go through; `options` are further arguments of ssh (`-i`, `-F`, `-o`).
    Keys, users and hosts otherwise come from the user's own ssh configuration; nothing is asked.
    """

    def __init__(
        self,
        host: str,
        *,
        user: str | None = None,
        port: int | None = None,
        jump: Sequence[str] = (),
        options: Sequence[str] = (),
        keep: int = 120,
    ) -> None:
        if host.startswith("-") or (user or "").startswith("-"):
            raise TransportError(f"{host!r} is not the name of a host")
        self.name = f"ssh://{f'{user}@' if user else ''}{host}{f':{port}' if port else ''}"
        self._local = LocalTransport()
        self._target = f"{user}@{host}" if user else host
        self._options = [*(["-p", str(port)] if port else []), *options]
        if jump:
            self._options += ["-J", ",".join(jump)]
        self._keep = keep
        self._folder: Path | None = None

    def run(self, command: Command) -> Output:
        mark = f"gristmill-{secrets.token_hex(8)}"
        out = self._local.run(
            Command(
                (*self._ssh(), remote_line(command, mark)), command.stdin, timeout=command.timeout
            )
        )
        return self._read(out, mark)

    def close(self) -> None:
        if self._folder is None:
            return
        self._local.run(Command((*self._ssh(), "-O", "exit"), timeout=10))
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def _ssh(self) -> tuple[str, ...]:
        if self._folder is None:  # short, since the path of a socket ends at 104 bytes
            self._folder = Path(tempfile.mkdtemp(prefix="gm-ssh-"))
        shared = (
            "ControlMaster=auto",
            f"ControlPath={self._folder}/s",
            f"ControlPersist={self._keep}",
        )
        calm = (
            "BatchMode=yes",
            "ServerAliveInterval=15",
            "ServerAliveCountMax=3",
            "LogLevel=ERROR",
        )
        flags = [word for option in (*shared, *calm) for word in ("-o", option)]
        return ("ssh", "-T", *flags, *self._options, self._target)

    def _read(self, out: Output, mark: str) -> Output:
        stdout, rc, begun = _between(out.stdout, mark)
        stderr, _, _ = _between(out.stderr, mark)
        if out.timed_out:
            return Output(stdout, stderr, rc=-1, timed_out=True)
        if rc is None:
            raise self._failure(out, begun)
        return Output(stdout, stderr, rc)

    def _failure(self, out: Output, begun: bool) -> Exception:
        said = out.error_text.strip().splitlines()
        text = f"{self.name}: {said[-1] if said else 'the connection ended without an answer'}"
        if not begun and re.search(_NOT_ADMITTED, out.error_text):
            return TransportError(f"{text} (try: ssh {self._target} true)")
        if not begun and re.search(_NOT_CONNECTED, out.error_text):
            return Transient(text, rc=out.rc, stderr=out.error_text)
        return ConnectionLost(text)


def remote_line(command: Command, mark: str) -> str:
    """One line for the login shell of the other side, whichever shell that is."""
    both = f"printf '{mark}<\\n'; printf '{mark}<\\n' >&2;"
    end = f"gm=$?; printf '{mark}>%s\\n' $gm; printf '{mark}>%s\\n' $gm >&2; exit $gm"
    run = f"{_environment(command.env)} {shlex.join(command.argv)}"
    stdin = "" if command.stdin is not None else " < /dev/null"
    return f"exec sh -c {shlex.quote(f'{both} ({run}){stdin}; {end}')}"


def _environment(changes: Mapping[str, str | None]) -> str:
    """Shell code that changes the environment; `NAME_*` removes all that begin so."""
    lines = []
    for name, value in changes.items():
        if value is not None:
            lines.append(f"{name}={shlex.quote(value)}; export {name};")
        elif name.endswith("*"):
            names = f"env | sed -n 's/^\\({name[:-1]}[A-Za-z0-9_]*\\)=.*/\\1/p'"
            lines.append(f"for gm_name in $({names}); do unset $gm_name; done;")
        else:
            lines.append(f"unset {name};")
    return " ".join(lines)


def _between(data: bytes, mark: str) -> tuple[bytes, int | None, bool]:
    """What is between the marks, the exit status after the second, whether the first was there."""
    _, begun, rest = data.partition(f"{mark}<\n".encode())
    payload, ended, tail = rest.rpartition(f"{mark}>".encode())
    if not ended:
        return rest, None, bool(begun)
    return payload, int(tail.split(b"\n")[0]), True
