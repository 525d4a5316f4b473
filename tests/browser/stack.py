"""The whole product in processes of its own: server, database, worker, the example."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.server_process import ServerProcess, open_folder

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".gristmill/environments/python/bin/python"
PAGE = ROOT / "frontend/dist/index.html"
ADMIN, ADMIN_PASSWORD = "admin", "a password of tests"
WANTED_SLOTS = 2
CHROMIUM_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@dataclass(frozen=True, slots=True)
class Stack:
    """A running product, with `demo` (who has the example) and `admin` to sign in as."""

    url: str
    demo_password: str
    server: ServerProcess

    def password(self, username: str) -> str:
        """Return the password of `demo` or `admin`."""
        return ADMIN_PASSWORD if username == ADMIN else self.demo_password

    def client(self, username: str = "demo") -> httpx.Client:
        """Return a client of /api/v1, signed in; close it."""
        with self.server.client() as door:
            form = {"username": username, "password": self.password(username)}
            token = door.post("/auth/token", data=form).raise_for_status().json()["access_token"]
        return self.server.client(token)


def chromium() -> str | None:
    """Return the system's Chromium; None lets Playwright take its own."""
    return shutil.which("chromium")


@contextmanager
def running_stack() -> Iterator[Stack]:
    """Start everything, yield it, end everything."""
    missing = [str(path) for path in (PYTHON, PAGE) if not path.exists()]
    assert not missing, f"run `make environment frontend` first: {', '.join(missing)} is missing"
    with open_folder() as folder:
        server = ServerProcess(folder / "data")
        server.start()
        try:
            server.create_admin(ADMIN, ADMIN_PASSWORD)
            _fill(server)
            password = (server.data / "demo-password").read_text().strip()
            stack = Stack(server.url, password, server)
            with _worker(server) as worker:
                _wait_for_slots(stack, worker)
                yield stack
        finally:
            server.stop()


def _fill(server: ServerProcess) -> None:
    command = [sys.executable, "examples/bootstrap.py", server.url, "--data", str(server.data)]
    subprocess.run(
        [*command, "--environment", str(PYTHON), "--admin", ADMIN],
        cwd=ROOT,
        env=os.environ | {"GRISTMILL_PASSWORD": ADMIN_PASSWORD},
        check=True,
        stdout=subprocess.DEVNULL,
    )


@contextmanager
def _worker(server: ServerProcess) -> Iterator[subprocess.Popen[bytes]]:
    data = server.data
    arguments = ["--server", server.url, "--config", str(data / "worker.toml")]
    arguments += ["--cache", str(data / "cache"), "--work", str(data / "work")]
    with (data / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "backend.worker", *arguments],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def _wait_for_slots(stack: Stack, worker: subprocess.Popen[bytes]) -> None:
    """Return when the worker has given its slots: before, no right on a queue reaches two."""
    with stack.client() as client:
        while client.get("/me/queues").raise_for_status().json()[0]["total_slots"] < WANTED_SLOTS:
            assert worker.poll() is None, (stack.server.data / "worker.log").read_text()[-3000:]
            time.sleep(0.1)


def experiment(client: httpx.Client, name: str, **changes: Any) -> dict[str, Any]:
    """Create the example's experiment as a draft; `changes` are put over its blocks' entries."""
    declaration = _example()
    for block, change in changes.items():
        declaration["blocks"][block] |= change
    body = {"name": name, "toolchain": "demo/digits/1", "declaration": declaration}
    made: dict[str, Any] = client.post("/experiments", json=body).raise_for_status().json()
    return made


def _example() -> dict[str, Any]:
    form = ROOT / "examples/digits/experiments/user/user/digits/1/digits.json"
    found: dict[str, Any] = json.loads(form.read_text().replace('"user/', '"demo/'))
    return found
