"""A whole farm on this machine: server, worker, and what `examples/bootstrap.py` makes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gristmill.client import Client
from tests.server_process import ServerProcess

ROOT = Path(__file__).parents[2]
PASSWORD = "a password of tests"


@dataclass
class Farm:
    """The server with a worker beside it; `close` ends both."""

    server: ServerProcess
    worker: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(cls) -> Farm:
        """Start server and worker, and make the example as `make up` does."""
        folder = Path(tempfile.mkdtemp(prefix="gristmill-farm-"))
        folder.chmod(0o755)
        farm = cls(ServerProcess(folder / "data"))
        farm.server.start()
        try:
            farm.server.run("create-admin", "admin", stdin=PASSWORD + "\n")
            farm.bootstrap()
            farm.start_worker()
            farm.bootstrap("--experiment")
        except BaseException:
            farm.close()
            raise
        return farm

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def data(self) -> Path:
        return self.server.data

    @property
    def demo_password(self) -> str:
        return (self.data / "demo-password").read_text()

    def bootstrap(self, *arguments: str) -> None:
        """Run the script that `make up` runs."""
        command = [sys.executable, "examples/bootstrap.py", self.url, "--data", str(self.data)]
        subprocess.run(
            [*command, "--environment", sys.executable, *arguments],
            cwd=ROOT,
            env=os.environ | {"GRISTMILL_PASSWORD": PASSWORD},
            check=True,
            capture_output=True,
        )

    def start_worker(self) -> None:
        """Start the worker, with this interpreter as its environment."""
        config = ["--config", str(self.data / "worker.toml"), "--cache", str(self.data / "cache")]
        with (self.data / "worker.log").open("ab") as log:
            self.worker = subprocess.Popen(
                [sys.executable, "-m", "backend.worker", "--server", self.url, *config],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def client(self, username: str = "demo") -> Client:
        """Return a client that is signed in."""
        client = Client(self.url)
        client.sign_in(username, PASSWORD if username == "admin" else self.demo_password)
        return client

    def close(self) -> None:
        """End worker and server, and remove their data."""
        if self.worker is not None:
            self.worker.terminate()
            self.worker.wait(60)
        self.server.stop()
        shutil.rmtree(self.data.parent)
