"""A real server: its own process on a free port, to talk to, to kill, to start again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

LISTENS = "Gristmill listens on "


@contextmanager
def open_folder() -> Iterator[Path]:
    """Give a folder that everybody may enter: for root, PostgreSQL runs as somebody else."""
    folder = Path(tempfile.mkdtemp(prefix="gristmill-server-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@dataclass(slots=True)
class ServerProcess:
    """`python -m backend.app serve` with its data folder; stays on its port over restarts."""

    data: Path
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None
    url: str = ""
    port: int = 0

    def start(self) -> None:
        """Start, and return when it listens; its log goes to `<data>/server.log`."""
        self.data.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.argv("serve", "--port", str(self.port)),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment(),
                start_new_session=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith(LISTENS):
            self.process.wait()
            raise AssertionError(f"the server did not start: {self.log.read_text()[-3000:]}")
        self.url = line.removeprefix(LISTENS).strip()
        self.port = int(self.url.rpartition(":")[2])

    def run(self, *arguments: str, stdin: str = "") -> str:
        """Run another command of the server, such as `create-admin`; return what it prints."""
        done = subprocess.run(
            self.argv(*arguments),
            input=stdin,
            capture_output=True,
            text=True,
            env=self._environment(),
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def client(self, token: str | None = None) -> httpx.Client:
        """Return a client of /api/v1, with a bearer token if given; close it."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=30)

    def create_admin(self, username: str = "root", password: str = "a password of tests") -> str:
        """Make an administrator and return an access token of theirs."""
        self.run("create-admin", username, stdin=password + "\n")
        with self.client() as client:
            form = {"username": username, "password": password}
            answer = client.post("/auth/token", data=form)
            return str(answer.raise_for_status().json()["access_token"])

    def kill(self) -> None:
        """End it at this instant (kill -9)."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        self._end(signal.SIGTERM)

    @property
    def log(self) -> Path:
        """What it wrote to standard error."""
        return self.data / "server.log"

    def argv(self, *arguments: str) -> list[str]:
        """Return the command line of one of its commands."""
        return [sys.executable, "-m", "backend.app", "--data", str(self.data), *arguments]

    def _environment(self) -> dict[str, str]:
        return os.environ | self.environment

    def _end(self, how: signal.Signals) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
