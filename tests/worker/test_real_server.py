"""The worker against the real server: who it is there, and what becomes of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server_process import ServerProcess

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


@pytest.fixture
def server(start_server: Callable[..., ServerProcess]) -> ServerProcess:
    return start_server()


@pytest.fixture
def admin(server: ServerProcess) -> Iterator[httpx.Client]:
    with server.client(server.create_admin()) as client:
        yield client


class Started:
    """A worker process of the real server."""

    def __init__(self, server: ServerProcess, admin: httpx.Client, tmp: Path, work: str) -> None:
        made = admin.post("/worker-credentials", json={"worker_name": "w1"})
        token = tmp / f"{work}.token"
        token.write_text(made.raise_for_status().json()["token"])
        config = tmp / "worker.toml"
        executable = json.dumps([sys.executable, "-m", "gristmill.runtime"])
        config.write_text(
            f'[[environment]]\nname = "P"\nversion = "1"\nexecutable = {executable}\n'
        )
        argv = ["--server", server.url, "--name", "w1", "--token-file", str(token)]
        argv += ["--config", str(config), "--work", str(tmp / work)]
        argv += ["--cache", str(server.data / "cache")]
        self.log = tmp / f"{work}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "backend.worker", *argv], stdout=log, stderr=log
            )


Start = Callable[[str], Started]


@pytest.fixture
def start(server: ServerProcess, admin: httpx.Client, tmp_path: Path) -> Iterator[Start]:
    started: list[Started] = []

    def one(work: str) -> Started:
        started.append(Started(server, admin, tmp_path, work))
        return started[-1]

    yield one
    for worker in started:
        worker.process.kill()
        worker.process.wait()


def wait_for_worker(admin: httpx.Client, **wanted: Any) -> dict[str, Any]:
    """Ask for the worker's row until it is as wanted."""
    found: Any = None
    for _ in range(600):
        items = admin.get("/workers").raise_for_status().json()["items"]
        found = items[0] if items else {}
        if items and all(found[name] == value for name, value in wanted.items()):
            return dict(found)
        time.sleep(0.1)
    raise AssertionError(f"wanted {wanted}, found {found}")


def test_it_comes_shares_the_cache_survives_a_restart_and_goes(
    server: ServerProcess, admin: httpx.Client, start: Start
) -> None:
    worker = start("a")
    row = wait_for_worker(admin, state="online", sandbox="bubblewrap")
    assert row["executor"] == "process"
    while '"event": "registered"' not in worker.log.read_text():
        time.sleep(0.05)
    assert '"shared_cache": true' in worker.log.read_text()
    assert not list((server.data / "cache/proof").iterdir())
    server.kill()
    server.start()
    wait_for_worker(admin, state="online")
    worker.process.terminate()
    assert worker.process.wait(60) == 0
    wait_for_worker(admin, state="offline")


def test_the_later_of_two_with_one_name_stays_and_the_other_stops_itself(
    admin: httpx.Client, start: Start
) -> None:
    first = start("a")
    wait_for_worker(admin, state="online")
    second = start("b")
    assert first.process.wait(60) == 3
    assert "no longer wanted" in first.log.read_text()
    wait_for_worker(admin, state="online")
    assert second.process.poll() is None
